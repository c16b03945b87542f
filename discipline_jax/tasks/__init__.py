"""The tasks, by name."""

import pathlib

from discipline_jax.errors import UserError
from discipline_jax.tasks import dna, planted
from discipline_jax.tasks.base import Task

_TASKS = {
  "dna_h3": lambda data_dir: dna.histone("dna_h3", "H3.txt", data_dir),
  "dna_h4": lambda data_dir: dna.histone("dna_h4", "H4.txt", data_dir),
  "dna_h3k9ac": lambda data_dir: dna.histone("dna_h3k9ac", "H3K9ac.txt", data_dir),
  "dna_splice": dna.splice,
  "dna_planted": lambda _: planted.planted(),
}


def get(name: str, data_dir: str | pathlib.Path) -> Task:
  """The task of that name over the files below `data_dir`; nothing is read before `task.read()`."""
  if name not in _TASKS:
    raise UserError(f"task.name = {name!r} is not one of: {', '.join(sorted(_TASKS))}")
  return _TASKS[name](pathlib.Path(data_dir).expanduser())
