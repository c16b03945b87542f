"""Checks that the input files of a run have not changed since it began; messages name the file."""

import json
import pathlib
from collections.abc import Mapping, Sequence

import jax
from absl import logging
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files.places import Path
from discipline_jax.models.locate import hub_commit
from discipline_jax.runs import inputs
from discipline_jax.runs.inputs import Difference, Files, Record
from discipline_jax.runs.saved import Saved

FILE = "inputs.json"


def check_finished(config: ConfigDict, workdir: Path) -> None:
  """Compares the files of a finished run before it is shown; a line says which could not be compared.

  Raises:
    UserError: a file has another content, or is new.
  """
  recorded = read(workdir)
  files = inputs.find(config, inputs.hub_directories(recorded or {}))
  if recorded is None:
    _say_unknown(files, workdir)
    return
  gone: dict[str, list[Difference]] = {}
  for one in _refused(files, recorded, workdir):
    gone.setdefault(one.field, []).append(one)
  for field, own in gone.items():
    _say(
      f"{field}: {_what_is_gone(own[0])}{f', and {len(own) - 1} more' if len(own) > 1 else ''}; not compared with what"
      f" the run in {workdir} had"
    )


def check_stopped(
  config: ConfigDict, workdir: Path, directories: Mapping[str, pathlib.Path] | None = None
) -> None:
  """Compares the files of a run that is resumed: before they are read, and again once `directories` are known.

  Files that are gone are an error only the second time: they may be downloaded in between, and the code that reads them
  reports them better.

  Args:
    config: config of the run.
    workdir: workdir of the run.
    directories: directories of checkpoints by the field that names them; None before they are known.

  Raises:
    UserError: a file has another content, or is new or gone.
  """
  recorded = read(workdir)
  known = inputs.hub_directories(recorded or {}) if directories is None else directories
  files = inputs.find(config, known)
  if directories is None and recorded is None:
    return
  if recorded is None:
    _say_unknown(files, workdir)
    return
  gone = _refused(files, recorded, workdir)
  if gone and directories is not None:
    raise UserError(
      f"{gone[0].field}: {_what_is_gone(gone[0])}, and the run in {workdir} began with it; put the file"
      " back"
    )


def check_model(saved: Saved, workdir: Path, *, weights: bool) -> None:
  """Compares the files that are read again to use the model of a finished run, if they are still there.

  Args:
    saved: the model.
    workdir: workdir of the run.
    weights: whether the checkpoint's weights are read, and not only its config and tokenizer.

  Raises:
    UserError: a file has another content, or is new.
  """
  recorded = read(workdir)
  files = inputs.find(saved.config, inputs.hub_directories(recorded or {}), weights=weights)
  is_text = saved.task.alphabet is None  # the rows of an alphabet's symbols are saved
  fields = ("model.checkpoint", "token_map.path") if is_text else ("model.checkpoint",)
  files = {field: files.get(field, {}) for field in fields}
  if recorded is None:
    _say_unknown(files, workdir)
  else:
    _refused(files, recorded, workdir, is_used=True)


def read(workdir: Path) -> Record | None:
  """Returns the record of a run's input files, or None if it was begun by a version that kept none.

  Raises:
    UserError: the file cannot be read.
  """
  path = workdir / FILE
  try:
    return inputs.from_json(json.loads(path.read_text(encoding="utf-8")))
  except FileNotFoundError:
    return None
  except (OSError, ValueError, TypeError, AttributeError):
    raise UserError(
      f"not a record of input files, {path}; delete it, and they are not compared, or give another --workdir"
    ) from None


def _refused(
  files: Files, recorded: Record, workdir: Path, *, is_used: bool = False
) -> Sequence[Difference]:
  """Raises UserError if a file has changed or is new; returns the differences that are left: files that are gone.

  Args:
    files, recorded: the files as they are now, and the record to compare them with.
    workdir: workdir of the run.
    is_used: whether the run's model is used, and the run itself does not start.
  """
  differences = inputs.compare(files, recorded)
  other = (
    "train again in another --workdir"
    if is_used
    else f"give another --workdir, or delete the folder {workdir}"
  )
  for one in differences:
    if one.kind == "changed":
      # A model of the hub cannot be restored, because its branch now has another commit.
      restore = "" if hub_commit(one.path.parent) else f"restore it, {'or ' * is_used}"
      raise UserError(
        f"the file has another content than when the run in {workdir} began ({one.field}), {one.path};"
        f" {restore}{other}"
      )
  for one in differences:
    if one.kind == "new":
      raise UserError(
        f"the file was not there when the run in {workdir} began ({one.field}), {one.path}; remove it,"
        f" {'or ' * is_used}{other}"
      )
  return differences


def _what_is_gone(one: Difference) -> str:
  place = "" if one.path.name == one.name else f" ({one.path} when the run began)"
  return f"{one.name}{place} is gone or cannot be read"


def _say_unknown(files: Files, workdir: Path) -> None:
  if any(files.values()):
    _say(
      f"the run in {workdir} has no {FILE}, so its input files were not compared with what it had"
    )


def _say(text: str) -> None:
  if jax.process_index() == 0:
    logging.warning("%s", text)
