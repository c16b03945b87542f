"""Checks what `predict` and `embed` are told to read and to write: a table, a file, and columns to keep."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched, local
from discipline_jax.files.places import Path, place


def check_files(
  config: ConfigDict, mode: str, suffixes: Sequence[str]
) -> tuple[pathlib.Path, Path]:
  """Returns the table to read and the file to write, `MODE.output`; raises UserError if they will not do.

  Args:
    config: of the command.
    mode: the block of the config that is meant.
    suffixes: those that the output may have.
  """
  source, output, kinds = config.task.path, config[mode].output, " or ".join(suffixes)
  if source is None or output is None:
    raise UserError(
      f"mode = {mode} needs --config.task.path, a table, and --config.{mode}.output, a {kinds} file"
    )
  path = place(output)
  has_folder = not isinstance(path, pathlib.Path) or (
    path.absolute().parent.is_dir() and not path.is_dir()
  )
  if path.suffix not in suffixes or not has_folder:
    raise UserError(
      f"{mode}.output = {output!r} is not a {kinds} file in a folder that exists; set --config.{mode}.output"
    )
  if local(path).resolve() == local(place(source)).resolve():
    raise UserError(
      f"{mode}.output = {output!r} is task.path itself, which it would replace; set --config.{mode}.output"
    )
  return fetched(place(source)), path


def check_replaced(output: Path, mode: str, is_own: Callable[[Any], bool]) -> None:
  """Raises UserError if the file to write exists, and the mode has not written it before.

  Args:
    output: the file to write.
    mode: the block of the config that names it.
    is_own: says whether the mode wrote a file, or nobody did and it is empty.
  """
  if output.exists() and not is_own(output):
    raise UserError(
      f"mode {mode} did not write the file that is there, and would replace it, {output}; move it away, or set"
      f" --config.{mode}.output to another file"
    )


def kept_columns(config: ConfigDict, mode: str, own: Sequence[str]) -> list[str]:
  """Returns the columns that `MODE.keep_columns` names; raises UserError if the output has such a column already.

  Args:
    config: of the command.
    mode: the block of the config that is meant.
    own: names of the columns that the output has anyway.
  """
  names = config[mode].keep_columns
  columns = [] if names is None else [name.strip() for name in names.split(",")]
  for column in columns:
    if columns.count(column) > 1:
      raise UserError(
        f"{mode}.keep_columns = {names!r} names the column {column!r} twice; name it once"
      )
    if not column or column in own:
      raise UserError(
        f"{mode}.keep_columns = {names!r}: a column {column!r} cannot be written beside"
        f" {', '.join(own)[:200]}; leave it out, or rename it in the table"
      )
  return columns
