"""Holds the rows of a table, whatever its format, and finds its columns by name."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from discipline_jax.errors import UserError

_INVISIBLE = "\ufeff\u200b\u2060"  # byte-order mark, zero-width space, word joiner

_FIELDS = (  # what names a column, in the order of `find_columns`
  "task.sequence_column",
  "task.label_column",
  "task.splits",
  "predict.keep_columns, or with mode=embed embed.keep_columns (or whichever of task.label_column, task.group_column"
  " and task.sequence_column names it)",
)


@dataclasses.dataclass(frozen=True)
class Row:
  """Holds one row of a table.

  Attributes:
    place: `file:line`, the first line of the row.
    sequence: the value of the sequence column, unchanged: a text, or any JSON value.
    label: the label as text, or a list of JSON; None if no label column was asked for, or if the value is JSON's null.
    split: the name of the split as text; None if no split column was asked for, or if the value is JSON's null.
    extra: the values of `extra_columns`, unchanged.
    first: of a pair of sequences, the number of symbols of the first one; else None.
  """

  place: str
  sequence: Any
  label: str | list | None
  split: str | None
  extra: tuple[Any, ...] = ()
  first: int | None = None


def clean(name: str) -> str:
  """Returns the name of a column without blanks and invisible characters around it."""
  return name.strip().strip(_INVISIBLE).strip()


def find_columns(
  columns: Sequence[str | None], names: Sequence[str], place: str, remedy: str
) -> list[int | None]:
  """Returns the place of each column among the names that the table has; None for a column that is None.

  Args:
    columns: names of the columns of sequence, label and split, then of the extra ones.
    names: names of the table's columns.
    place: `file:line`, for messages.
    remedy: what helps if no other column is meant.

  Raises:
    UserError: a column that the table does not have.
  """
  cleaned = [clean(name) for name in names]
  for i, column in enumerate(columns):
    if column is not None and clean(column) not in cleaned:
      found = ", ".join(repr(name) for name in cleaned if name)
      raise UserError(
        f"no column {column!r} among {found[:200]}, {place}; set --config.{_FIELDS[min(i, 3)]}, or {remedy}"
      )
  return [None if column is None else cleaned.index(clean(column)) for column in columns]
