"""Manifests: which documents of which files each block of a corpus has, and what the blocks are made by."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from discipline_jax.corpora.ranges import Range
from discipline_jax.corpora.source import VERSION, Source, file_digests
from discipline_jax.corpora.tfds_records import TfdsRecords
from discipline_jax.errors import UserError
from discipline_jax.files.whole_files import write_json

NAME = "work/manifest.json"
# Packages that decide about the bytes of a corpus.
_PACKAGES = ("discipline-jax", "array-record", "numpy", "sentencex", "tokenizers")


@dataclasses.dataclass(frozen=True)
class File:
  """A file of a corpus.

  Attributes:
    name: its path below `corpus.path`; or the name of a data set.
    size: its bytes; or the number of records of the data set.
    changed: when it was written, in nanoseconds since 1970; 0 for a data set.
    digest: the SHA-256 digest of its content, in hexadecimal; empty for a data set.
  """

  name: str
  size: int
  changed: int
  digest: str


@dataclasses.dataclass(frozen=True)
class Manifest:
  """The plan of a preparation.

  Attributes:
    versions: of the packages that decide about the bytes.
    settings: all that decides about the corpus but the files' content; see `Source.settings`.
    files: the files of the text.
    texts: the ranges of the text, whose words are counted one by one.
    lines: for each block of an artificial corpus, the number of its lines; empty for other corpora.
    parts: in how many parts it is made, by `--part`; 0 if in one go.
  """

  versions: dict[str, str]
  settings: dict[str, Any]
  files: tuple[File, ...]
  texts: tuple[Range, ...]
  lines: tuple[int, ...]
  parts: int

  @property
  def blocks(self) -> tuple[Range, ...] | tuple[int, ...]:
    """Lists what each block of the corpus has: a range of the text, or so many lines."""
    return self.lines or self.texts

  @functools.cached_property
  def digest(self) -> str:
    """A digest of the whole manifest."""
    content = json.dumps(dataclasses.asdict(self), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]

  def write(self, folder: pathlib.Path) -> None:
    """Writes the manifest into the folder of a corpus that is being prepared."""
    write_json(folder / NAME, dataclasses.asdict(self))

  @classmethod
  def read(cls, folder: pathlib.Path) -> "Manifest":
    """Reads the manifest of a folder.

    Raises:
      UserError: there is none, or it cannot be read.
    """
    try:
      content = json.loads((folder / NAME).read_text(encoding="utf-8"))
      return cls(
        content["versions"],
        content["settings"],
        tuple(File(**one) for one in content["files"]),
        tuple(Range(*one) for one in content["texts"]),
        tuple(content["lines"]),
        content["parts"],
      )
    except (OSError, ValueError, KeyError, TypeError) as error:
      raise UserError(
        f"not a manifest ({type(error).__name__}: {error}), {folder / NAME}; delete {folder} and prepare the corpus"
        " again"
      ) from None

  def check(self, source: Source, folder: pathlib.Path) -> None:
    """Checks that the blocks belong to this version, this config, and to the files as they are now.

    Args:
      source: the source of the config.
      folder: the folder of the manifest, which the messages name.

    Raises:
      UserError: something differs.
    """
    again = f"{folder}; {self._remedy(folder)}"
    for name, version in versions().items():
      if self.versions.get(name) != version:
        raise UserError(
          f"made by {name} {self.versions.get(name)}, and this is {version}, {again}, or use that version"
        )
    for name, value in source.settings().items():
      if name not in self.settings or self.settings[name] != value:
        raise UserError(
          f"made for another config, with {name} {self.settings.get(name)!r} and not {value!r}, {again}"
        )
    self.check_files(source, folder)

  def check_files(self, source: Source, folder: pathlib.Path) -> None:
    """Raises UserError if the files of the text have other names or another content than when they were listed."""
    then, now = ({one.name: one for one in found} for found in (self.files, stated(source)))
    moved = [name for name in now.keys() & then.keys() if _without_digest(then[name]) != now[name]]
    paths = [_path(source, name) for name in moved if then[name].digest]  # a data set has none
    with _still_there():
      digests = dict(zip(paths, file_digests(paths), strict=True))
    what = dict.fromkeys(then.keys() - now.keys(), "is gone")
    what |= dict.fromkeys(now.keys() - then.keys(), "is new")
    for name in moved:
      if digests.get(_path(source, name)) != then[name].digest:
        what[name] = "has changed"
    for name in sorted(what):
      raise UserError(
        f"{_path(source, name)} {what[name]} since the preparation began; {self._remedy(folder)}"
      )

  def _remedy(self, folder: pathlib.Path) -> str:
    if not self.parts:
      return "run the same command again"
    return f"delete {folder}, and prepare all parts again"


def versions() -> dict[str, str]:
  """Returns the versions of what decides about the bytes of a corpus.

  An editable checkout has one version for all its commits, so that the files beside this one count, too.
  """
  own = {"discipline_jax.corpora": f"{VERSION}+{_own_digest()}"}
  return own | {name: metadata.version(name) for name in _PACKAGES}


@functools.cache
def _own_digest() -> str:
  digest = hashlib.sha256()
  for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    digest.update(hashlib.sha256(path.read_bytes()).digest() + path.name.encode())
  return digest.hexdigest()[:12]


def listed(source: Source) -> list[File]:
  """Returns the files of a source with their digests: reads all of them.

  Raises:
    UserError: a file is gone.
  """
  if not source.files:
    return stated(source)
  with _still_there():
    # First, so that a change during the reading shows in the times.
    found = [_file(source, path) for path in source.files]
    digests = file_digests(source.files)
  return [dataclasses.replace(one, digest=own) for one, own in zip(found, digests, strict=True)]


def digests_of(files: Iterable[File]) -> list[str]:
  """Returns the digests of files, as `Source.key` takes them: a data set has none."""
  return [one.digest for one in files if one.digest]


def stated(source: Source) -> list[File]:
  """Returns the files of a source without their digests: reads none of them. Files that are gone are left out."""
  if source.config.corpus.name == "tfds":
    assert isinstance(source.texts, TfdsRecords)
    return [File(source.texts.name, source.texts.size, 0, "")]
  found = []
  for path in source.files:
    with contextlib.suppress(FileNotFoundError):
      found.append(_file(source, path))
  return found


def _file(source: Source, path: pathlib.Path) -> File:
  """Returns a file without its digest; raises FileNotFoundError if it is gone."""
  status = path.stat()
  name = path.relative_to(_path(source, "")).as_posix()
  return File(name, status.st_size, status.st_mtime_ns, "")


@contextlib.contextmanager
def _still_there() -> Iterator[None]:
  """Says which of the files that were found is gone."""
  try:
    yield
  except FileNotFoundError as error:
    raise UserError(
      f"the file is gone since the files were listed, {error.filename}; run the same command again"
    ) from None


def _without_digest(file: File) -> File:
  return dataclasses.replace(file, digest="")


def _path(source: Source, name: str) -> pathlib.Path:
  """Returns the path of a file of a source; the name alone for a data set."""
  if source.config.corpus.name == "tfds":
    return pathlib.Path(name)
  base = source.base
  assert base is not None
  return (base.parent if source.files == [base] else base) / name
