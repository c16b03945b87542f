"""The user's own sequences: any table of symbols with a class or a value for each."""

import dataclasses
import math
import pathlib
import re
from collections.abc import Iterable, Sequence

import numpy as np
from absl import logging
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Alphabet, Example, Task, keep_valid
from discipline_jax.tasks.metrics import CLASS_METRICS, VALUE_METRICS
from discipline_jax.tasks.tables import Row, json_text, read_table

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_SYMBOLS = ("characters", "words", "integers")
_KINDS = {"classification": CLASS_METRICS, "regression": VALUE_METRICS}  # the first is the default
_PARTS = {
  "train": "train",
  "validation": "validation",
  "valid": "validation",
  "dev": "validation",
  "test": "test",
}


# A row, its symbols, and its label.
_Sample = tuple[Row, Sequence[str], str]


@dataclasses.dataclass(frozen=True)
class Format:
  """How to read a table; the fields of the config's `task`, where they are explained."""

  sequence_column: str
  label_column: str
  splits: str | None
  symbols: str
  kind: str
  skip_invalid: bool


def task_format(task: ConfigDict) -> Format:
  """The format that the `task` of a config says."""
  return Format(**{field.name: task[field.name] for field in dataclasses.fields(Format)})


def custom(path: str | None, form: Format, alphabet: str | None, metric: str | None) -> Task:
  """A task of one's own, which is read at once: its classes and symbols are what its files hold.

  Args:
    path: a table (`tables.read_table`); with `{split}` in it, one each for train, validation and, if it exists, test.
    form: how to read it.
    alphabet: all symbols, as one string of characters or with blanks between them; None: those of the training part.
    metric: one of `metrics`; None: accuracy or spearman.

  Raises:
    UserError: a table, label or symbol that cannot be read, with file and line.
  """
  if path is None:
    raise UserError(
      "task.path is not set; set --config.task.path to a CSV, TSV, JSONL or FASTA file"
    )
  for name, value, choices in (
    ("symbols", form.symbols, _SYMBOLS),
    ("kind", form.kind, tuple(_KINDS)),
  ):
    if value not in choices:
      raise UserError(f"task.{name} = {value!r} is not one of: {', '.join(choices)}")
  metric = metric or _KINDS[form.kind][0]
  if metric not in _KINDS[form.kind]:
    raise UserError(f"task.metric = {metric!r} is not one of: {', '.join(_KINDS[form.kind])}")
  parts = _read_parts(path, form)
  learnt = "train" if "train" in parts else "all"
  if alphabet is None:
    given = {symbol for _, own, _ in parts[learnt] for symbol in own}
  else:
    given = set(split_symbols(alphabet, form.symbols, "task.alphabet"))
    parts[learnt] = keep_valid(
      parts[learnt],
      lambda sample: _within(given, sample),
      form.skip_invalid,
      pathlib.Path(path),
    )
  labels: tuple[str, ...] = ()
  if form.kind == "classification":
    labels = tuple(_sorted({label for part in parts.values() for _, _, label in part}))
    if len(labels) < 2:
      raise UserError(
        f"only one class, {labels[0]!r}, {path}; set task.kind=regression, or give two classes"
      )
    if metric == "f1" and len(labels) > 2:
      raise UserError(
        f"task.metric = 'f1' is of two classes, not of the {len(labels)} in {path}; set task.metric=macro_f1"
      )
    rows = sum(map(len, parts.values()))
    if len(labels) > rows / 2:
      logging.warning(
        "%d classes for %d samples; if the labels are values, set task.kind=regression",
        len(labels),
        rows,
      )
    absent = set(labels) - {label for _, _, label in parts[learnt]}
    if absent:
      logging.warning("no training sample has the class %s", ", ".join(_sorted(absent)))
  symbols = Alphabet(tuple(_sorted(given)), is_open=True)
  examples = {
    part: [
      Example(sequence, labels.index(label) if labels else float(label))
      for sequence, (_, _, label) in zip(
        encode([own for _, own, _ in rows], symbols), rows, strict=True
      )
    ]
    for part, rows in parts.items()
  }
  return Task(
    "custom",
    symbols,
    labels,
    metric,
    None,
    lambda: examples,
    stratified=True,
  )


def _within(symbols: set[str], sample: _Sample) -> _Sample:
  row, own, _ = sample
  wrong = next((symbol for symbol in own if symbol not in symbols), None)
  if wrong is not None:
    raise UserError(
      f"the symbol {wrong!r} is not in task.alphabet, {row.place}; add it, or correct the line"
    )
  return sample


def _read_parts(path: str, form: Format) -> dict[str, list[_Sample]]:
  """The samples by part."""
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
        parts[part] = read_rows(one, form)
    return parts
  rows = read_rows(file, form)
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
  path: pathlib.Path, form: Format, *, labelled: bool = True
) -> list[tuple[Row, Sequence[str], str]]:
  """Rows with their symbols and labels (empty where not `labelled`); raises UserError with file and line.

  With `form.skip_invalid` rows that are not as they should be are left out and counted.
  """
  label_column, split_column = (form.label_column, form.splits) if labelled else (None, None)

  def read(row: Row) -> tuple[Row, Sequence[str], str]:
    if split_column is not None and row.split not in _PARTS:
      raise UserError(
        f"the split {row.split!r} is not one of {', '.join(_PARTS)}, {row.place}; correct the line"
      )
    symbols = split_symbols(row.sequence, form.symbols, row.place)
    return row, symbols, _label(row, form) if labelled else ""

  rows = read_table(path, form.sequence_column, label_column, split_column)
  return keep_valid(rows, read, form.skip_invalid, path)


def split_symbols(sequence: object, kind: str, place: str) -> Sequence[str]:
  """The symbols of a sequence: characters, blank-separated words, or integers (also with commas, or a JSON list)."""
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
  """Text stays text; other symbols become their numbers, one past the last for those that the alphabet lacks."""
  numbers = {symbol: i for i, symbol in enumerate(alphabet.symbols)}
  return [
    symbols
    if isinstance(symbols, str)
    else np.array([numbers.get(symbol, len(numbers)) for symbol in symbols], np.int32)
    for symbols in sequences
  ]


def _label(row: Row, form: Format) -> str:
  label = (row.label or "").strip()
  if not label:
    raise UserError(f"no label, {row.place}; every row needs one")
  control = _CONTROL.search(label)
  if control:
    raise UserError(
      f"the control character {control[0]!r} in a label, {row.place}; correct the line"
    )
  if form.kind == "regression":
    try:
      value = float(label)
    except ValueError:
      value = math.nan
    if not abs(value) <= float(np.finfo(np.float32).max):
      raise UserError(
        f"the label {label[:40]!r} is not a finite number, {row.place}; correct the line"
      )
  elif label.lower() == "nan":  # what other programs make of a missing label
    raise UserError(f"the label {label!r} is none, {row.place}; give one, or leave the row out")
  return label


def _sorted(values: Iterable[str]) -> list[str]:
  """Numbers in their order where all are integers, else as text."""
  values = sorted(values)  # first, so that 1 and 01 have an order
  try:
    return sorted(values, key=int)
  except ValueError:
    return values
