"""Reads new samples of a task from a table without labels."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from absl import logging
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.letters import upper
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.custom import encode
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.own_table import unlabelled_rows
from discipline_jax.tasks.readers.lines import each_valid
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.readers.tables import Row, each_row
from discipline_jax.tasks.streamed import UNKNOWN_TOKENS, Inputs, check_unknown, scan
from discipline_jax.tasks.symbols import check_known
from discipline_jax.tasks.table_format import task_format

_SHOWN = 10  # unknown symbols that are named
_UNSEEN = {
  "upper": "add --config.task.case=upper, or write them in upper case",
  "lower": "write them in lower case",
  "mixed": "write them as they are in training",
  "other": "check that the sequences are written as they were for training, and task.sequence_column",
}


def read_unlabelled(
  path: pathlib.Path,
  task: Task,
  options: ConfigDict,
  *,
  trained: ConfigDict | None,
  pairs: bool,
  keep: Sequence[Column] = (),
  inputs: Inputs | None = None,
) -> tuple[list[Row], list[Sequence[str]], list[Example]]:
  """Returns the rows of a table, with the values of the columns to keep as `extra`, their symbols, and their samples.

  Args:
    path, task, options, trained, pairs, keep: see `each_unlabelled`.
    inputs: how the model reads texts; None for symbols.

  Raises:
    UserError: as `each_unlabelled`; also if most symbols do not occur in training, or most tokens are unknown.
  """
  samples = list(each_unlabelled(path, task, options, trained=trained, pairs=pairs, keep=keep)())
  rows, symbols = [row for row, _ in samples], [own for _, own in samples]
  alphabet = task.alphabet
  if inputs is not None:
    what, remedy = UNKNOWN_TOKENS
    check_unknown(scan(samples, inputs), (), {"other": remedy}, what)
  if alphabet is None:
    examples = [Example(own[0], None, own[1] if pairs else None) for own in symbols]
    return rows, symbols, examples
  if alphabet.is_open:
    _check_unseen([(row.place, own) for row, own in samples], set(alphabet.symbols))
  examples = [
    Example(sequence, None, first=row.first)
    for row, sequence in zip(rows, encode(symbols, alphabet), strict=True)
  ]
  return rows, symbols, examples


def each_unlabelled(
  path: pathlib.Path,
  task: Task,
  options: ConfigDict,
  *,
  trained: ConfigDict | None,
  pairs: bool,
  keep: Sequence[Column] = (),
) -> Callable[[], Iterator[tuple[Row, Sequence[str]]]]:
  """Returns a function that reads a table anew and yields its rows, each with its symbols or its one or two texts.

  Args:
    path: a table, see `readers.tables.each_row`.
    task: the task that a model was trained on.
    options: `task` of a config: column names and `skip_invalid` are taken from it. Letters are read as capitals if its
      `case` or the run's is `upper`.
    trained: `task` of the run's config, if it says how sequences are written; None if the task has no such options.
    pairs: whether a sample is two sequences or texts, in two columns.
    keep: columns to keep, whose values are the row's `extra`.

  Raises:
    UserError: a table that the task cannot read, with file and line; the function raises it, too.
  """
  if task.alphabet is None:
    return _each_text(path, options, pairs, keep)
  _columns(options, pairs, "sequences")
  form = task_format(options)
  form.check()
  if trained is None:
    form = dataclasses.replace(form, symbols=task.alphabet.spelling)
  else:
    case = "upper" if "upper" in (trained.case, options.case) else "as_is"
    form = dataclasses.replace(form, symbols=trained.symbols, k=trained.k, case=case)
  check = None if task.alphabet.is_open else partial(_known, task.alphabet)
  return unlabelled_rows(path, form, extra_columns=keep, label_form=task.answer.form, check=check)


def _check_unseen(rows: Sequence[tuple[str, Sequence[str]]], known: set[str]) -> None:
  """Raises UserError if most symbols are unknown; names them, and logs how many rows consist of such symbols."""
  check_known(rows, known, _UNSEEN)
  unknown = {one: place for place, own in reversed(rows) for one in own if one not in known}
  if unknown:
    shown = sorted(unknown)[:_SHOWN]
    logging.warning(
      "the run's table has no symbol %s%s, first at %s; unknown symbols are read alike",
      ", ".join(map(repr, shown)),
      f" and {len(unknown) - len(shown)} more" if len(unknown) > len(shown) else "",
      unknown[shown[0]],
    )
  mostly = [place for place, own in rows if 2 * sum(one not in known for one in own) > len(own)]
  if mostly:
    logging.warning(
      "more than half of the symbols of %d rows do not occur in training, so their predictions say nothing; the first"
      " is %s",
      len(mostly),
      mostly[0],
    )


def _each_text(
  path: pathlib.Path, options: ConfigDict, pairs: bool, keep: Sequence[Column]
) -> Callable[[], Iterator[tuple[Row, Sequence[str]]]]:
  first, *second = (
    Column(name, "task.sequence_column") for name in _columns(options, pairs, "texts")
  )
  columns = [first, None, None, *second, *keep]

  def each() -> Iterator[tuple[Row, Sequence[str]]]:
    # Quotes in a .tsv are part of the text, as they are in GLUE's files.
    rows = each_row(path, columns, tsv_quotes=False)
    return each_valid(rows, partial(_texts, pairs), options.skip_invalid, path)

  return each


def _columns(options: ConfigDict, pairs: bool, what: str) -> list[str]:
  """Returns the names of the columns of sequences; raises UserError if they are not as many as a sample has."""
  columns = [name.strip() for name in options.sequence_column.split(",")]
  if len(columns) != 1 + pairs:
    wanted = "two columns with a comma between them" if pairs else f"one column of {what}"
    raise UserError(
      f"task.sequence_column = {options.sequence_column!r} is not {wanted}; set --config.task.sequence_column"
    )
  return columns


def _texts(pairs: bool, row: Row) -> tuple[Row, Sequence[str]]:
  """Returns a row with only the columns to keep, and its one or two texts."""
  texts = (row.sequence, *row.extra[:pairs])
  for text in texts:
    if not isinstance(text, str):
      raise UserError(f"{str(text)[:40]!r} is not a text, {row.place}; correct the line")
    if not text.strip():
      raise UserError(f"empty text, {row.place}; every row needs one")
  return dataclasses.replace(row, extra=row.extra[pairs:]), texts


def _known(alphabet: Alphabet, row: Row, symbols: Sequence[str]) -> Sequence[str]:
  """Returns the symbols of a row as the alphabet spells them; raises UserError for one that it lacks."""
  if alphabet.spelling == "characters":  # then a list of symbols is a text, too
    symbols = upper("".join(symbols))
  wrong = alphabet.unknown(symbols)
  if wrong is not None:
    raise UserError(
      f"{wrong!r} is not a symbol of the run's task ({' '.join(alphabet.symbols)}), {row.place}; correct the line"
    )
  return symbols
