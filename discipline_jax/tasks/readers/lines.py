"""Reads lines of text files, and leaves out invalid samples if that is wanted."""

import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from absl import logging

from discipline_jax.errors import UserError

Record = TypeVar("Record")
Sample = TypeVar("Sample")


def read_lines(path: pathlib.Path, where_to_get_it: str) -> list[str]:
  """Returns the lines of a text file without line ends; raises UserError if it is missing, empty or not text."""
  try:
    text = path.read_text(encoding="utf-8-sig")
  except FileNotFoundError:
    raise UserError(f"no file {path}; {where_to_get_it}") from None
  except OSError as error:
    raise UserError(f"{error.strerror}, {path}; {where_to_get_it}") from None
  except UnicodeDecodeError as error:
    line = error.object[: error.start].count(b"\n") + 1
    raise UserError(f"not UTF-8 text, {path}:{line}; {where_to_get_it}") from None
  if not text.strip():
    raise UserError(f"empty file, {path}; {where_to_get_it}")
  # Not splitlines: a text may hold the other characters that it takes for line ends.
  return text.removesuffix("\n").split("\n")


def keep_valid(
  records: Iterable[Record | UserError],
  read: Callable[[Record], Sample],
  skip_invalid: bool,
  path: pathlib.Path,
) -> list[Sample]:
  """Reads records into samples, in order; see `each_valid`."""
  return list(each_valid(records, read, skip_invalid, path))


def each_valid(
  records: Iterable[Record | UserError],
  read: Callable[[Record], Sample],
  skip_invalid: bool,
  path: pathlib.Path,
) -> Iterator[Sample]:
  """Yields the samples that records are read into, in order.

  Args:
    records: the records, or a UserError in the place of each that could not be read.
    read: turns a record into a sample, or raises UserError.
    skip_invalid: False raises the first error; True leaves invalid records out and logs how many there were.
    path: the file, for messages.

  Raises:
    UserError: an invalid record, or at the end if there was no valid one at all.
  """
  first: UserError | None = None
  number = valid = 0
  for record in records:
    try:
      if isinstance(record, UserError):
        raise record
      sample = read(record)
    except UserError as error:
      if not skip_invalid:
        raise
      first, number = first or error, number + 1
    else:
      valid += 1
      yield sample
  if number:
    logging.warning("%d samples of %s are left out; the first: %s", number, path, first)
  if not valid:
    raise UserError(f"no valid sample, {path}; unset task.skip_invalid to see why")
