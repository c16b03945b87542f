"""Reads new samples of a task from a table without labels."""

import dataclasses
import pathlib
from collections.abc import Sequence
from functools import partial

from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.custom import encode, read_rows, task_format
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.readers.lines import keep_valid, upper
from discipline_jax.tasks.readers.tables import Row, read_table


def read_unlabelled(
  path: pathlib.Path, task: Task, options: ConfigDict, *, symbols: str | None, pairs: bool
) -> tuple[list[str], list[Example]]:
  """Returns the places (`file:line`) and the samples of the rows of a table.

  Args:
    path: a table, see `readers.tables.read_table`.
    task: the task that a model was trained on.
    options: `task` of a config: column names and `skip_invalid` are taken from it.
    symbols: the `task.symbols` that the model was trained with; None if its task has no such option.
    pairs: whether a sample is two texts, in two columns.

  Raises:
    UserError: a table that the task cannot read, with file and line.
  """
  if task.alphabet is None:
    return _read_texts(path, options, pairs)
  symbols = symbols or task.alphabet.spelling
  form = dataclasses.replace(task_format(options), symbols=symbols)
  alphabet = task.alphabet
  check = None if alphabet.is_open else partial(_known, alphabet)
  rows = read_rows(path, form, labelled=False, check=check)
  sequences = encode([own for _, own, _ in rows], alphabet)
  return [row.place for row, _, _ in rows], [Example(sequence, None) for sequence in sequences]


def _read_texts(
  path: pathlib.Path, options: ConfigDict, pairs: bool
) -> tuple[list[str], list[Example]]:
  columns = options.sequence_column.split(",")
  if len(columns) != 1 + pairs:
    wanted = "two columns with a comma between them" if pairs else "one column of texts"
    raise UserError(
      f"task.sequence_column = {options.sequence_column!r} is not {wanted}; set --config.task.sequence_column"
    )
  # Quotes in a .tsv are part of the text, as they are in GLUE's files.
  rows = read_table(path, columns[0], None, None, extra_columns=columns[1:], tsv_quotes=False)
  samples = keep_valid(rows, _text_example, options.skip_invalid, path)
  return [place for place, _ in samples], [example for _, example in samples]


def _text_example(row: Row) -> tuple[str, Example]:
  """Returns the place and the sample of the one or two texts of a row."""
  texts = (row.sequence, *row.extra)
  for text in texts:
    if not isinstance(text, str):
      raise UserError(f"{str(text)[:40]!r} is not a text, {row.place}; correct the line")
  return row.place, Example(texts[0], None, texts[1] if row.extra else None)


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
