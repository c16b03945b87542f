"""Holds the rows of a table, whatever its format, and finds its columns by name."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from discipline_jax.errors import UserError

_INVISIBLE = "\ufeff\u200b\u2060"  # byte-order mark, zero-width space, word joiner


class Column(NamedTuple):
  """A column that is wanted.

  Attributes:
    name: its name in the table.
    field: the field of a config that says this name, such as `task.label_column`, for messages.
  """

  name: str
  field: str


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
  columns: Sequence[Column | None], names: Sequence[str], place: str, remedy: str
) -> list[int | None]:
  """Returns the place of each column among the names that the table has; None for a column that is None.

  Args:
    columns: the columns that are wanted.
    names: names of the table's columns.
    place: `file:line`, for messages.
    remedy: what helps if no other column is meant.

  Raises:
    UserError: a column that the table does not have.
  """
  cleaned = [clean(name) for name in names]
  for column in columns:
    if column is not None and clean(column.name) not in cleaned:
      found = ", ".join(repr(name) for name in cleaned if name)
      raise UserError(
        f"no column {column.name!r} among {found[:200]}, {place}; set --config.{column.field}, or {remedy}"
      )
  return [None if column is None else cleaned.index(clean(column.name)) for column in columns]
