"""Finds the input files of a run, and tells whether they still have the content that they had when it began.

For each field of the config that names files, a record has the path, size, times and SHA-256 digest of each file, by
a name that stays the same when all of them are moved. A file whose size and times are as recorded is not read again.
"""

import contextlib
import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ml_collections import ConfigDict

from discipline_jax import tasks
from discipline_jax.corpora.prepared import DESCRIPTION
from discipline_jax.corpora.text import find_files
from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched
from discipline_jax.files.places import place
from discipline_jax.models.initialise import INITS
from discipline_jax.models.locate import checkpoint_files, hub_commit, local_directory
from discipline_jax.tasks.own_table import part_files

# By field and name. Later versions must not list more files for a run of this version, because they would look new.
Files = dict[str, dict[str, pathlib.Path]]
_READERS = 4  # files that are read at the same time
Stamp = tuple[int, int, int]  # size and times


@dataclasses.dataclass(frozen=True)
class Entry:
  """A recorded file: where it was, its size in bytes, when it and its inode changed last, and its digest."""

  path: str
  size: int
  mtime_ns: int
  ctime_ns: int
  sha256: str

  @property
  def stamp(self) -> Stamp:
    return self.size, self.mtime_ns, self.ctime_ns


Record = dict[str, dict[str, Entry]]  # by field and name


@dataclasses.dataclass(frozen=True)
class Difference:
  """A file that is not as it was when the run began.

  Attributes:
    field: the field of the config that names it.
    name: its name there.
    path: where it is or, if it is gone, where it was.
    kind: `changed` (another content), `new`, or `gone` (not there, or not readable).
  """

  field: str
  name: str
  path: pathlib.Path
  kind: str


def find(
  config: ConfigDict, directories: Mapping[str, pathlib.Path], *, weights: bool = True
) -> Files:
  """Returns the input files of a run that are there; opens none of them, and does not ask the hub.

  Args:
    config: a config of fine-tuning or pre-training.
    directories: directories of checkpoints by the field that names them, if they are known.
    weights: whether the weights of `model.checkpoint` count, too.
  """
  models = {
    "model.checkpoint": (config.model.checkpoint, weights and config.model.init != "scratch")
  }
  if config.mode == "analyze":
    return {**_task_files(config), **_compared(config, weights)}
  if config.mode == "pretrain":
    found = {"corpus.path": _corpus_files(config)}
    models["corpus.vocabulary"] = (config.corpus.vocabulary, False)
  else:
    found = {**_task_files(config), "token_map.path": _token_maps(config)}
  for field, (checkpoint, has_weights) in models.items():
    directory = directories.get(field) or (checkpoint and local_directory(checkpoint))
    files = checkpoint_files(directory, weights=has_weights) if directory else []
    found[field] = {file.name: file for file in files}
  return {
    field: {name: path for name, path in sorted(files.items()) if path.is_file()}
    for field, files in found.items()
  }


def hub_directories(recorded: Record) -> dict[str, pathlib.Path]:
  """Returns the directories of the recorded checkpoints that came from the hub, by field."""
  directories = {
    field: pathlib.Path(one.path).parent
    for field, files in recorded.items()
    for one in files.values()
  }
  return {field: path for field, path in directories.items() if hub_commit(path) is not None}


def stamps(files: Files) -> dict[pathlib.Path, Stamp]:
  """Returns the size and the times of each file, which change with its content."""
  return {path: _stamp(path) for own in files.values() for path in own.values()}


def record(files: Files) -> Record:
  """Reads all files, and returns their record; raises UserError if one cannot be read."""
  before = stamps(files)  # taken first, so that a change during reading shows in the times
  digests = _digests(list(before))

  def entry(path: pathlib.Path) -> Entry:
    digest = digests[path]
    if digest is None:
      raise UserError(f"cannot be read any more, {path}; put the file back, and start again")
    return Entry(str(path.absolute()), *before[path], digest)

  return {
    field: {name: entry(path) for name, path in own.items()} for field, own in files.items() if own
  }


def to_json(recorded: Record) -> dict[str, Any]:
  """Returns a record as JSON values, which `from_json` reads."""
  return {
    field: {name: dataclasses.asdict(one) for name, one in own.items()}
    for field, own in recorded.items()
  }


def from_json(content: Any) -> Record:
  """Returns the record that `to_json` made into JSON; raises TypeError or AttributeError for anything else."""
  return {
    field: {name: Entry(**one) for name, one in own.items()} for field, own in content.items()
  }


def compare(files: Files, recorded: Record) -> list[Difference]:
  """Returns how files differ from a record of them; files that were only touched, copied or moved do not.

  Only recorded files of the fields in `files` are compared.
  """
  unsure: list[tuple[Difference, str]] = []
  found = []
  for field, own in files.items():
    if field == "corpus.path" and field not in recorded:
      continue  # an older version did not record a prepared corpus of corpus.name = tfds
    known = recorded.get(field, {})
    for name, path in own.items():
      if name not in known:
        found.append(Difference(field, name, path, "new"))
      elif _stamp(path) != known[name].stamp:
        unsure.append((Difference(field, name, path, "changed"), known[name].sha256))
    found += [
      Difference(field, name, pathlib.Path(known[name].path), "gone")
      for name in known
      if name not in own
    ]
  digests = _digests([one.path for one, _ in unsure])
  for one, expected in unsure:
    if digests[one.path] is None:
      found.append(dataclasses.replace(one, kind="gone"))
    elif digests[one.path] != expected:
      found.append(one)
  return found


def summary(recorded: Record) -> dict[str, str]:
  """Returns a digest for each field of a record: of its file or, if it has several, of their names and digests."""
  digests = {}
  for field, files in recorded.items():
    lines = [f"{one.sha256}  {name}\n" for name, one in sorted(files.items())]
    whole = hashlib.sha256("".join(lines).encode()).hexdigest()
    digests[field] = whole if len(files) != 1 else next(iter(files.values())).sha256
  return digests


def _stamp(path: pathlib.Path) -> Stamp:
  try:
    # The second time changes even if a program that writes the file sets the first one back.
    status = path.stat()
  except OSError:
    return -1, -1, -1
  return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _digests(paths: list[pathlib.Path]) -> dict[pathlib.Path, str | None]:
  """Returns the SHA-256 digest of each file, or None if it cannot be read."""

  def digest(path: pathlib.Path) -> str | None:
    with contextlib.suppress(OSError), path.open("rb") as file:
      return hashlib.file_digest(file, "sha256").hexdigest()
    return None

  with ThreadPoolExecutor(_READERS) as pool:  # the library lets other threads run
    return dict(zip(paths, pool.map(digest, paths), strict=True))


def _task_files(config: ConfigDict) -> Files:
  name, task = config.task.name, config.task
  if name is None:
    return {}
  if tasks.takes(name, "path"):
    return {"task.path": {} if task.path is None else part_files(task.path)}
  folder = tasks.data_directory(config)
  return {
    "data_dir": {
      path.relative_to(folder).as_posix(): path for path in tasks.files(name, folder, task)
    }
  }


def _compared(config: ConfigDict, weights: bool) -> Files:
  """Returns the files of the local networks that an analysis compares, each below its number."""
  names = config.analysis.models or (config.model.checkpoint,)
  found: dict[str, pathlib.Path] = {}
  for number, given in enumerate(names):
    init, colon, source = (given or "").partition(":")
    source = source if colon and init in INITS else given
    run = fetched(place(source or "") / "model")
    directory = local_directory(source) if source and not run.is_dir() else None
    files = checkpoint_files(directory, weights=weights and init != "scratch") if directory else []
    files = sorted(run.iterdir()) if run.is_dir() else files
    found |= {f"{number}/{file.name}": file for file in files}
  return {"analysis.models": found}


def _token_maps(config: ConfigDict) -> dict[str, pathlib.Path]:
  settings = config.token_map
  if settings.kind != "table" or settings.path is None:
    return {}
  first = config.seed if settings.seed is None else settings.seed
  maps = {}
  for seed in range(first, first + config.replicas):
    path = fetched(place(settings.path.replace("{seed}", str(seed))))
    maps[str(seed) if "{seed}" in settings.path else path.name] = path
  return maps


def _corpus_files(config: ConfigDict) -> dict[str, pathlib.Path]:
  corpus = config.corpus
  if corpus.path is None:
    return {}
  path = fetched(place(corpus.path))
  if corpus.name == "tfds" and not (path / DESCRIPTION).is_file():
    return {}
  try:
    files = find_files(path)
  except UserError:  # nothing is there
    return {}
  if path.is_file():
    return {path.name: path}
  return {file.relative_to(path).as_posix(): file for file in files}
