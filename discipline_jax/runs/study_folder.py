"""The files that a study has beside its runs: `study.json`, which says what they are, and `failed.json`."""

from collections.abc import Iterable

from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files.locks import locked
from discipline_jax.files.places import Path, make_folder
from discipline_jax.files.whole_files import read_json, write_json


class Failures:
  """Why runs of a study failed when they were last tried: `failed.json`, one line by the name of a run."""

  def __init__(self, folder: Path):
    self._path = folder / "failed.json"

  def read(self) -> dict[str, str]:
    """Returns the lines by name; raises UserError if the file is not of a study."""
    try:
      content = read_json(self._path)
    except FileNotFoundError:
      return {}
    except ValueError:  # not UTF-8, or not JSON
      content = None
    if not isinstance(content, dict) or not all(isinstance(one, str) for one in content.values()):
      raise UserError(f"not a list of failed runs, {self._path}; delete it")
    return content

  def note(self, name: str, reason: str) -> None:
    """Keeps why a run failed."""
    self._change({name: reason}, ())

  def forget(self, names: Iterable[str]) -> None:
    """Drops the lines of runs that are tried again, or are finished."""
    if self.read().keys() & set(names):
      self._change({}, names)

  def _change(self, new: dict[str, str], dropped: Iterable[str]) -> None:
    with locked(self._path.with_name(".failed.lock")):  # several processes may share the study
      lines = {name: why for name, why in self.read().items() if name not in set(dropped)} | new
      if not lines:
        self._path.unlink(missing_ok=True)
        return
      write_json(self._path, lines)


def check_folder(workdir: Path) -> None:
  """Raises UserError if the folder is the workdir of a run that is no study."""
  for name in ("config.json", "result.json"):
    path = workdir / name
    try:
      is_study = not path.exists() or read_json(path)["mode"] == "study"
    except (ValueError, KeyError, TypeError):
      is_study = False
    if not is_study:
      raise UserError(f"not of a study, {path}; give another --workdir")


def describe_runs(config: ConfigDict, workdir: Path) -> None:
  """Writes `study.json`: the mode and the labels of each run, for a report.

  Args:
    config: of the study.
    workdir: of the study; it is made if it does not exist.
  """
  labels = config.labels.to_dict()
  runs = {
    name: {"mode": run.mode, "labels": labels.get(name, {})} for name, run in config.runs.items()
  }
  make_folder(workdir)
  write_json(workdir / "study.json", {"cells": runs})
