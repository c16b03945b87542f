"""Lists the tasks by name, makes them, and says which files and options each of them takes."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.tasks import (
  custom,
  dna,
  glue,
  introns,
  music,
  planted,
  protein,
  secondary_structure,
  sources,
  table_format,
)
from discipline_jax.tasks.base import Task

# The options that every task takes.
_COMMON = (
  "name",
  "train_fraction",
  "max_length",
  "standardise",
  "group_identity",
  "reverse_complement",
)
# Those of sequences that may be longer than the model can read.
_WINDOWS = ("long", "stride")


@dataclasses.dataclass(frozen=True)
class _Entry:
  """A task by its name.

  Attributes:
    make: (data_dir, `task` of a config) -> the task.
    options: the fields of a config's `task` that it takes, beside those that every task takes.
    index: files that name the task's other files, and must be there first.
    is_public: whether missing files may be downloaded.
  """

  make: Callable[[pathlib.Path, ConfigDict], Task]
  options: tuple[str, ...] = ()
  index: Callable[[pathlib.Path], list[pathlib.Path]] = lambda _: []
  is_public: bool = True


def _protein(make: Callable, *options: str) -> _Entry:
  return _Entry(
    lambda data_dir, task: make(data_dir, skip_invalid=task.skip_invalid),
    ("skip_invalid", *options),
  )


_TASKS: dict[str, _Entry] = {
  "dna_h3": _Entry(lambda data_dir, _: dna.histone("dna_h3", "H3.txt", data_dir)),
  "dna_h4": _Entry(lambda data_dir, _: dna.histone("dna_h4", "H4.txt", data_dir)),
  "dna_h3k9ac": _Entry(lambda data_dir, _: dna.histone("dna_h3k9ac", "H3K9ac.txt", data_dir)),
  "dna_splice": _Entry(lambda data_dir, _: dna.splice(data_dir)),
  "dna_planted": _Entry(lambda *_: planted.planted()),
  "dna_introns": _Entry(lambda data_dir, _: introns.introns(data_dir), _WINDOWS),
  "protein_ss3": _protein(secondary_structure.ss3, *_WINDOWS),
  "protein_ss8": _protein(secondary_structure.ss8, *_WINDOWS),
  "protein_localization": _protein(protein.localization, *_WINDOWS),
  "protein_stability": _protein(protein.stability),
  "protein_fluorescence": _protein(protein.fluorescence),
  "music_composer": _Entry(
    lambda data_dir, task: music.composer(
      data_dir,
      keep_last_segment=task.keep_last_segment,
      sort_by=task.sort_by,
      vote=task.vote,
      skip_invalid=task.skip_invalid,
    ),
    ("keep_last_segment", "sort_by", "vote", "skip_invalid"),
    lambda data_dir: [data_dir / music.TABLE],
  ),
  "custom": _Entry(
    lambda _, task: custom.custom(
      task.path, table_format.task_format(task), task.alphabet, task.metric
    ),
    (
      "path",
      "alphabet",
      "metric",
      *_WINDOWS,
      *(field.name for field in dataclasses.fields(table_format.Format)),
    ),
    is_public=False,  # the user's own file
  ),
  **{
    f"glue_{name}": _Entry(
      lambda data_dir, task, name=name: glue.glue(name, data_dir, task.source), ("source",)
    )
    for name in glue.NAMES
  },
}


def data_directory(config: ConfigDict) -> pathlib.Path:
  """Returns `config.data_dir`, else $DISCIPLINE_DATA, else ~/.cache/discipline_jax; of a bucket, the local copy."""
  return copies.local(
    place(config.data_dir or os.environ.get("DISCIPLINE_DATA") or "~/.cache/discipline_jax")
  )


def get(name: str, data_dir: str | pathlib.Path, options: ConfigDict | None = None) -> Task:
  """Returns the task of a name over the files below `data_dir`; samples are only read by its `read`.

  Args:
    name: one of the tasks.
    data_dir: the folder with the files of all tasks, laid out as docs/tasks.md says.
    options: `task` of a config; by default `defaults.finetune().task`.

  Raises:
    UserError: no such task, or an option that the task does not take.
  """
  default = defaults.finetune().task
  options = default if options is None else options
  entry, folder = _entry(name), copies.local(place(data_dir))
  for option in options:
    # Configs of older versions say `cut` where nothing is set.
    is_set = options[option] not in (default[option], *(["cut"] if option == "long" else []))
    if option not in _COMMON and not takes(name, option) and is_set:
      raise UserError(
        f"task {name} does not take task.{option} = {options[option]!r};"
        f" set --config.task.{option}={default[option]}, in another --workdir if the run has begun"
      )
  copies.refresh(entry.index(folder))
  task = entry.make(folder, options)
  if entry.is_public:
    copies.refresh(task.files)
  return with_windows(task, options.long, options.stride) if takes(name, "long") else task


def with_windows(task: Task, long: str | None, stride: int | None) -> Task:
  """Returns the task with what `task.long` and `task.stride` say of long sequences."""
  if long not in (None, "cut", "windows"):
    raise UserError(f"task.long = {long!r} is not one of: cut, windows")
  if long != "windows" and stride is not None:
    raise UserError(
      f"task.stride = {stride} is for task.long=windows; set --config.task.long=windows, or --config.task.stride=None"
    )
  return dataclasses.replace(task, windows=long == "windows", stride=stride)


def takes(name: str, option: str) -> bool:
  """Returns whether a task takes an option of a config's `task` that not all tasks take."""
  return option in _entry(name).options


def files(name: str, data_dir: pathlib.Path, options: ConfigDict) -> Sequence[pathlib.Path]:
  """Returns the files that a task reads; only those that name the others if these cannot be read."""
  try:
    return get(name, data_dir, options).files
  except UserError:
    return _entry(name).index(data_dir)


def fetch(name: str, data_dir: str | pathlib.Path, options: ConfigDict) -> None:
  """Downloads the missing files of a task if they are public; reading the task reports the others.

  Nothing is downloaded into a bucket.

  Raises:
    UserError: a download that failed, with what to do by hand.
  """
  entry, folder = _entry(name), copies.local(place(data_dir))
  if not entry.is_public or copies.is_copy(folder):
    return
  index = entry.index(folder)
  sources.ensure(index, folder)
  if options.skip_invalid and any(file.with_suffix("").exists() for file in index):
    return  # the files that are missing there are to be left out
  sources.ensure(get(name, folder, options).files, folder)


def _entry(name: str) -> _Entry:
  if name not in _TASKS:
    raise UserError(f"task.name = {name!r} is not one of: {', '.join(sorted(_TASKS))}")
  return _TASKS[name]
