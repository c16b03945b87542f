"""The tasks, by name."""

import pathlib
from typing import Any

from ml_collections import ConfigDict

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.tasks import custom, dna, glue, music, planted, protein, sources
from discipline_jax.tasks.base import Task

# (data_dir, the config's `task` fields) -> the task
_TASKS: dict[str, Any] = {
  "dna_h3": lambda data_dir, _: dna.histone("dna_h3", "H3.txt", data_dir),
  "dna_h4": lambda data_dir, _: dna.histone("dna_h4", "H4.txt", data_dir),
  "dna_h3k9ac": lambda data_dir, _: dna.histone("dna_h3k9ac", "H3K9ac.txt", data_dir),
  "dna_splice": lambda data_dir, _: dna.splice(data_dir),
  "dna_planted": lambda *_: planted.planted(),
  "protein_localization": lambda data_dir, task: protein.localization(
    data_dir, skip_invalid=task.skip_invalid
  ),
  "protein_stability": lambda data_dir, task: protein.stability(
    data_dir, skip_invalid=task.skip_invalid
  ),
  "protein_fluorescence": lambda data_dir, task: protein.fluorescence(
    data_dir, skip_invalid=task.skip_invalid
  ),
  "music_composer": lambda data_dir, task: music.composer(
    data_dir,
    keep_last_segment=task.keep_last_segment,
    sort_by=task.sort_by,
    vote=task.vote,
    skip_invalid=task.skip_invalid,
  ),
  "custom": lambda _, task: custom.custom(
    task.path, custom.task_format(task), task.alphabet, task.metric
  ),
  **{
    f"glue_{name}": lambda data_dir, task, name=name: glue.glue(name, data_dir, task.source)
    for name in glue.NAMES
  },
}


def get(name: str, data_dir: str | pathlib.Path, options: ConfigDict | None = None) -> Task:
  """The task of that name over the files below `data_dir`; nothing is read before `task.read()`.

  Args:
    name: one of the tasks.
    data_dir: laid out as the README says.
    options: `task` of a config, for the tasks that have options; by default `defaults.finetune().task`.
  """
  if name not in _TASKS:
    raise UserError(f"task.name = {name!r} is not one of: {', '.join(sorted(_TASKS))}")
  return _TASKS[name](
    pathlib.Path(data_dir).expanduser(), defaults.finetune().task if options is None else options
  )


def fetch(name: str, data_dir: str | pathlib.Path, options: ConfigDict) -> None:
  """Downloads what is missing of a task's files, where they are public; the others are left to `Task.read`'s message.

  Raises:
    UserError: a download that failed, with what to do by hand.
  """
  if name == "custom":  # the user's own, and it would be read twice
    return
  folder = pathlib.Path(data_dir).expanduser()
  if name == "music_composer":
    table = folder / "music" / "maestro-v1.0.0.csv"  # it names the other files
    sources.ensure([table], folder)
    if options.skip_invalid and table.with_suffix("").exists():
      return  # pieces that are missing there are to be left out
  sources.ensure(get(name, folder, options).files, folder)
