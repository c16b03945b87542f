"""Keeps local copies of what is read from buckets, in `~/.cache/discipline_jax/buckets`.

Tokenizers, safetensors, ArrayRecord and MIDI files are read by libraries that know only local files. A copy is made
once on each machine, and again of what has changed. It has the generation of its object as its time.
"""

import fnmatch
import os
import pathlib
import secrets
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor

from etils import epath

from discipline_jax.errors import UserError
from discipline_jax.files import buckets
from discipline_jax.files.locks import locked
from discipline_jax.files.places import Path

_AT_ONCE = 8  # files that are copied at the same time


def root() -> pathlib.Path:
  """Returns the folder of all copies."""
  return pathlib.Path("~/.cache/discipline_jax/buckets").expanduser()


def local(path: Path) -> pathlib.Path:
  """Returns where the copy of a place is kept, whether it was made or not; a local path itself."""
  if isinstance(path, pathlib.Path):
    return path
  return root() / str(path).removeprefix("gs://")


def is_copy(path: pathlib.Path) -> bool:
  """Returns whether a local path is that of a copy."""
  return path.is_relative_to(root())


def original(text: str) -> str:
  """Replaces, in a message, the paths of copies by those of their originals."""
  return text.replace(f"{root()}/", "gs://")


def fetched(path: Path, names: Collection[str] = ("*",)) -> pathlib.Path:
  """Returns the copy of a file or a folder, up to date; a local path itself. What is not there has no copy.

  Args:
    path: the place.
    names: patterns of the names of the files that are wanted, in whatever depth.
  """
  copy = local(path)
  refresh([copy], names)
  return copy


def refresh(copies: Iterable[pathlib.Path], names: Collection[str] = ("*",)) -> None:
  """Brings the copies of files and folders up to date; paths that are no copies are left alone.

  Args:
    copies: the paths.
    names: see `fetched`.

  Raises:
    UserError: the bucket is not there, or may not be read.
    TimeoutError: the storage does not answer.
    OSError: the disk is full.
  """
  wanted = {copy for copy in copies if is_copy(copy)}
  if not wanted:
    return
  top = pathlib.Path(os.path.commonpath(wanted))
  try:
    with locked(top.with_name(f".{top.name}.lock")):
      _refresh(top, wanted, names)
  except (FileNotFoundError, PermissionError) as error:
    raise UserError(f"{error.strerror}, {original(str(error.filename))}") from None


def publish(path: Path, last: str) -> None:
  """Writes to a bucket the folder that was made in the place of its copy; does nothing for a local path.

  Folders in it are left out.

  Args:
    path: of the folder in the bucket.
    last: the name of the file that appears last, without which the folder does not count.
  """
  if isinstance(path, pathlib.Path):
    return
  files = [one for one in local(path).iterdir() if one.is_file()]
  for copy in sorted(files, key=lambda one: one.name == last):
    time = buckets.upload(copy, path / copy.name) * 1000
    os.utime(copy, ns=(time, time))


def _refresh(top: pathlib.Path, wanted: set[pathlib.Path], names: Collection[str]) -> None:
  def is_named(copy: pathlib.Path) -> bool:
    return any(fnmatch.fnmatchcase(copy.name, one) for one in names)

  listed = buckets.entries(epath.Path(original(str(top))))
  found = {local(path): (path, entry) for path, entry in listed.items()}
  found = {
    copy: origin
    for copy, origin in found.items()
    if not wanted.isdisjoint([copy, *copy.parents]) and is_named(copy)
  }
  for path in wanted:
    for old in filter(is_named, [path, *path.rglob("*")]):
      if old not in found and old.is_file() and not old.name.startswith("."):
        old.unlink()
  stale = [copy for copy, (_, entry) in found.items() if _stamp(copy) != _expected(entry)]
  with ThreadPoolExecutor(_AT_ONCE) as pool:
    list(pool.map(lambda copy: _fetch(copy, *found[copy]), stale))


def _fetch(copy: pathlib.Path, path: epath.Path, entry: buckets.Entry) -> None:
  copy.parent.mkdir(parents=True, exist_ok=True)
  part = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}")
  try:
    buckets.download(path, entry.generation, part)
    _, time = _expected(entry)
    os.utime(part, ns=(time, time))
    part.replace(copy)
  finally:
    part.unlink(missing_ok=True)


def _expected(entry: buckets.Entry) -> tuple[int, int]:
  """Returns the size and the time of a copy; a generation is a time in microseconds."""
  return entry.size, entry.generation * 1000


def _stamp(path: pathlib.Path) -> tuple[int, int] | None:
  try:
    status = path.stat()
  except FileNotFoundError:
    return None
  return status.st_size, status.st_mtime_ns
