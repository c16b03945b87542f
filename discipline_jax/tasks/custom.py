"""Makes a task of the user's own table: sequences of symbols, each with a label."""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from absl import logging
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.tasks.answers import KINDS, sort_labels
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.readers.lines import keep_valid
from discipline_jax.tasks.readers.tables import Row, json_text, read_table

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_SYMBOLS = ("characters", "words", "integers")
_PARTS = {
  "train": "train",
  "validation": "validation",
  "valid": "validation",
  "dev": "validation",
  "test": "test",
}


# A row, its symbols, and its label.
_Sample = tuple[Row, Sequence[str], Any]


@dataclasses.dataclass(frozen=True)
class Format:
  """Settings for reading a table: fields of a config's `task`, which `defaults` explains."""

  sequence_column: str
  label_column: str
  splits: str | None
  symbols: str
  kind: str
  skip_invalid: bool


def task_format(task: ConfigDict) -> Format:
  """Returns the format that the `task` of a config describes."""
  return Format(**{field.name: task[field.name] for field in dataclasses.fields(Format)})


def custom(path: str | None, form: Format, alphabet: str | None, metric: str | None) -> Task:
  """Makes a task of a table. The table is read at once, because its content decides the classes and the symbols.

  Args:
    path: a table (see `readers.tables.read_table`). If it holds `{split}`, there is one file for train, one for
      validation and, if it exists, one for test.
    form: how to read it.
    alphabet: all symbols, as one string of characters or with blanks between them; None for those of the training part.
    metric: a metric of the kind of answer; None for its default.

  Raises:
    UserError: a table, label or symbol that cannot be read, with file and line.
  """
  if path is None:
    raise UserError(
      "task.path is not set; set --config.task.path to a CSV, TSV, JSONL or FASTA file"
    )
  for name, value, choices in (
    ("symbols", form.symbols, _SYMBOLS),
    ("kind", form.kind, tuple(KINDS)),
  ):
    if value not in choices:
      raise UserError(f"task.{name} = {value!r} is not one of: {', '.join(choices)}")
  kind = KINDS[form.kind]
  metric = kind.choose_metric(metric)
  allowed = (
    set(split_symbols(alphabet, form.symbols, "task.alphabet")) if alphabet is not None else None
  )
  parts = _read_parts(path, form, allowed)
  learnt = "train" if "train" in parts else "all"
  given = allowed or {symbol for _, own, _ in parts[learnt] for symbol in own}
  answer = kind.fit(
    {part: [label for _, _, label in rows] for part, rows in parts.items()}, metric, path
  )
  symbols = Alphabet(tuple(sort_labels(given)), is_open=True)
  examples = {
    part: [
      Example(sequence, answer.encode(label))
      for sequence, (_, _, label) in zip(
        encode([own for _, own, _ in rows], symbols), rows, strict=True
      )
    ]
    for part, rows in parts.items()
  }
  return Task("custom", symbols, answer, None, lambda: examples, stratified=True)


def _read_parts(path: str, form: Format, allowed: set[str] | None) -> dict[str, list[_Sample]]:
  """Returns the samples by part; those to train on may only have the `allowed` symbols, if there are any."""

  def check(row: Row, symbols: Sequence[str]) -> Sequence[str]:
    is_trained = form.splits is None or _PARTS[str(row.split)] == "train"
    wrong = next((one for one in symbols if allowed and one not in allowed), None)
    if is_trained and wrong is not None:
      raise UserError(
        f"the symbol {wrong!r} is not in task.alphabet, {row.place}; add it, or correct the line"
      )
    return symbols

  file = pathlib.Path(path).expanduser()
  parts: dict[str, list[_Sample]] = {}
  if "{split}" in path:
    if form.splits is not None:
      raise UserError(
        f"task.splits = {form.splits!r}, but task.path = {path!r} has a file for each part; unset one of the two"
      )
    for part in ("train", "validation", "test"):
      one = pathlib.Path(str(file).replace("{split}", part))
      if part == "test" and not one.exists():
        logging.warning("no file %s: the validation part is the test", one)
      else:
        parts[part] = read_rows(one, form, check=check if part == "train" else None)
    return parts
  rows = read_rows(file, form, check=check)
  if form.splits is None:
    return {"all": rows}
  for row, symbols, label in rows:
    assert row.split is not None  # `read_rows` has seen to it
    parts.setdefault(_PARTS[row.split], []).append((row, symbols, label))
  for part in ("train", "validation"):
    if part not in parts:
      raise UserError(
        f"no row of the {part} part in column {form.splits!r}, {file}; give at least train and validation"
      )
  if "test" not in parts:
    logging.warning("no row of the test part, %s: the validation part is the test", file)
  return {part: parts[part] for part in ("train", "validation", "test") if part in parts}


def read_rows(
  path: pathlib.Path,
  form: Format,
  *,
  labelled: bool = True,
  check: Callable[[Row, Sequence[str]], Sequence[str]] | None = None,
) -> list[_Sample]:
  """Reads the rows of a table with their symbols and labels.

  Args:
    path: a table.
    form: how to read it. With `skip_invalid`, invalid rows are left out and counted.
    labelled: whether the table has labels; if not, they are None.
    check: returns the symbols of a row as they are to be used, or raises UserError if they are invalid.

  Raises:
    UserError: an invalid row, with file and line.
  """
  label_column, split_column = (form.label_column, form.splits) if labelled else (None, None)

  def read(row: Row) -> _Sample:
    if split_column is not None and row.split not in _PARTS:
      raise UserError(
        f"the split {row.split!r} is not one of {', '.join(_PARTS)}, {row.place}; correct the line"
      )
    symbols = split_symbols(row.sequence, form.symbols, row.place)
    label = KINDS[form.kind].parse(row.label or "", row.place) if labelled else None
    return row, symbols if check is None else check(row, symbols), label

  rows = read_table(path, form.sequence_column, label_column, split_column)
  return keep_valid(rows, read, form.skip_invalid, path)


def split_symbols(sequence: object, kind: str, place: str) -> Sequence[str]:
  """Splits a sequence into its symbols: characters, words between blanks, or integers between blanks or commas.

  A JSON list is taken as it is.
  """
  if isinstance(sequence, list):
    others = [s for s in sequence if not isinstance(s, str | int | float) or s == ""]
    if others:
      raise UserError(
        f"{str(others[0])[:40]!r} in a list of symbols is neither text nor a number, {place}; correct the line"
      )
    symbols: Sequence[str] = [json_text(symbol) for symbol in sequence]
  elif not isinstance(sequence, str):
    raise UserError(
      f"the sequence {str(sequence)[:40]!r} is neither text nor a list, {place}; correct the line"
    )
  elif kind == "characters":
    symbols = sequence.strip().replace("\n", "")  # as FASTA has line ends
    wrong = next((c for c in symbols if not c.isprintable() or c.isspace()), None)
    if wrong is not None:
      raise UserError(
        f"the character {wrong!r} in a sequence of characters, {place}; correct the line, or set task.symbols=words"
      )
  else:
    symbols = (sequence.replace(",", " ") if kind == "integers" else sequence).split()
  control = _CONTROL.search("".join(symbols))
  if control:
    raise UserError(f"the control character {control[0]!r} in a symbol, {place}; correct the line")
  if not symbols:
    raise UserError(f"empty sequence, {place}; every row needs one")
  if kind == "integers":
    try:
      symbols = [str(int(symbol)) for symbol in symbols]
    except ValueError as error:
      raise UserError(
        f"not integers ({error}), {place}; correct the line, or set task.symbols=words"
      ) from None
  return symbols


def encode(sequences: Iterable[Sequence[str]], alphabet: Alphabet) -> list[str | np.ndarray]:
  """Replaces symbols by their numbers, except in texts; unknown symbols get the number after the last one."""
  numbers = {symbol: i for i, symbol in enumerate(alphabet.symbols)}
  return [
    symbols
    if isinstance(symbols, str)
    else np.array([numbers.get(symbol, len(numbers)) for symbol in symbols], np.int32)
    for symbols in sequences
  ]
