"""Reads tables of sequences in the formats that users have: CSV, TSV, JSON lines or FASTA; plain, gzip or xz."""

import csv
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.files.packed_text import kind_of, lines
from discipline_jax.tasks.readers.fasta import parse

_FASTA = (".fa", ".faa", ".fasta", ".fna")
_FIELD_LIMIT = 2**31 - 1  # characters; csv's own limit is shorter than a chromosome
_REMEDY = "give a CSV, TSV, JSONL or FASTA file as task.path"


@dataclasses.dataclass(frozen=True)
class Row:
  """Holds one row of a table.

  Attributes:
    place: `file:line`, the first line of the row.
    sequence: the value of the sequence column, unchanged: a text, or any JSON value.
    label: the label as text; None if no label column was asked for, or if the value is JSON's null.
    split: the name of the split as text; None if no split column was asked for, or if the value is JSON's null.
    extra: the values of `extra_columns`, unchanged.
  """

  place: str
  sequence: Any
  label: str | None
  split: str | None
  extra: tuple[Any, ...] = ()


def read_table(
  path: pathlib.Path,
  sequence_column: str,
  label_column: str | None,
  split_column: str | None,
  *,
  extra_columns: Sequence[str] = (),
  tsv_quotes: bool = True,
) -> list[Row | UserError]:
  """Reads all rows of a table; a row that cannot be read is returned as its error.

  A FASTA file has no column names. Its headers are `>name label split`, or `>name label` or `>name split` if only one
  of the two columns is asked for.

  Args:
    path: the file. Its suffix gives the format: .csv, .tsv, .jsonl, .fa, .faa, .fasta or .fna, each also with .gz or
      .xz after it.
    sequence_column: the name of the column with the sequences.
    label_column: the name of the column with the labels; None: read no labels.
    split_column: the name of the column with the splits; None: read no splits.
    extra_columns: the names of further columns to read, such as the second text of a pair; none in FASTA.
    tsv_quotes: True: quotes in a .tsv file quote, as in a .csv file; False: they are ordinary characters.

  Raises:
    UserError: the whole file is unusable: its name, packing, encoding, quotes or header is wrong, or it has no rows.
  """
  kind = kind_of(path)
  columns = [sequence_column, label_column, split_column, *extra_columns]
  content = lines(path, _REMEDY)
  if kind == ".csv":
    rows = list(_read_csv(content, path, columns, ","))
  elif kind == ".tsv":
    rows = list(_read_csv(content, path, columns, "\t", quotes=tsv_quotes))
  elif kind == ".jsonl":
    rows = list(_read_json(content, path, columns))
  elif kind in _FASTA:
    if extra_columns:
      raise UserError(
        f"FASTA has no column {extra_columns[0]!r}, {path}; give a CSV, TSV or JSONL file as task.path"
      )
    rows = list(_read_fasta(content, path, columns))
  else:
    raise UserError(
      f"the suffix of {path.name!r} is none of .csv, .tsv, .jsonl, {', '.join(_FASTA)}, {path}; {_REMEDY}"
    )
  if not rows:
    raise UserError(f"the table has no rows, {path}; {_REMEDY}")
  return rows


def _read_csv(
  lines: Iterable[str],
  path: pathlib.Path,
  columns: list[str | None],
  delimiter: str,
  *,
  quotes: bool = True,
) -> Iterator[Row | UserError]:
  csv.field_size_limit(_FIELD_LIMIT)
  reader = csv.reader(
    lines,
    delimiter=delimiter,
    strict=True,
    quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
  )
  header: list[str] = []
  places: list[int | None] = []
  place = f"{path}:1"
  try:
    for fields in reader:
      here, place = place, f"{path}:{reader.line_num + 1}"
      if not fields:
        continue
      if not header:
        header = fields
        twice = [name for name in header if header.count(name) > 1]
        if twice:
          raise UserError(f"two columns have the name {twice[0]!r}, {here}; rename one")
        _check_columns(columns, header, here)
        places = [None if name is None else header.index(name) for name in columns]
        continue
      if len(fields) != len(header):
        yield UserError(
          f"{len(fields)} fields where the header has {len(header)}, {here}; correct the line"
        )
        continue
      sequence, label, split, *extra = (None if i is None else fields[i] for i in places)
      yield Row(here, sequence, label, split, tuple(extra))
  except csv.Error as error:
    reason = str(error).replace("\t", "\\t")
    raise UserError(f"not a CSV line ({reason}), {place}; correct the line") from None


def _check_columns(columns: list[str | None], names: Sequence[str], place: str) -> None:
  """Raises UserError if one of `columns` is not among the names that the table has."""
  for column in columns:
    if column is not None and column not in names:
      raise UserError(
        f"no column {column!r} among {', '.join(names)[:200]}, {place};"
        " set task.sequence_column, task.label_column or task.splits"
      )


def _read_json(
  lines: Iterable[str], path: pathlib.Path, columns: list[str | None]
) -> Iterator[Row | UserError]:
  for number, line in enumerate(lines, 1):
    if line.strip():
      try:
        row: Row | UserError = _json_row(line, f"{path}:{number}", columns)
      except UserError as error:
        row = error
      yield row


def _json_row(line: str, place: str, columns: list[str | None]) -> Row:
  try:
    record = json.loads(line)
    if "\\u" in line:  # an escape can write half of a surrogate pair, which no text file can hold
      json.dumps(record, ensure_ascii=False).encode()
  except (ValueError, RecursionError) as error:
    reason = getattr(error, "msg", str(error))
    raise UserError(f"not a JSON object ({reason}), {place}; correct the line") from None
  if not isinstance(record, dict):
    raise UserError(f"not a JSON object, {place}; write one object on each line")
  _check_columns(columns, list(record), place)
  sequence, label, split, *extra = (None if name is None else record[name] for name in columns)
  if label is not None and not isinstance(label, str | int | float):
    raise UserError(
      f"the label {str(label)[:40]!r} is neither text nor a number, {place}; correct the line"
    )
  return Row(
    place,
    sequence,
    None if label is None else json_text(label),
    None if split is None else json_text(split),
    tuple(extra),
  )


def json_text(value: Any) -> str:
  """Returns a JSON value as text. JSON has one kind of number, so 1.0 becomes `1`."""
  if isinstance(value, str):
    return value
  if isinstance(value, float) and value.is_integer():
    return str(int(value))
  return json.dumps(value)


def _read_fasta(
  lines: Iterable[str], path: pathlib.Path, columns: list[str | None]
) -> Iterator[Row | UserError]:
  words_by_column = zip(("name", "label", "split"), columns, strict=True)
  wanted = [word for word, column in words_by_column if column is not None]
  for record in parse((line.strip() for line in lines), path):
    words, place = record.header.split(), f"{path}:{record.line}"
    if len(words) < len(wanted):
      yield UserError(
        f"{len(words)} words in a header that needs {len(wanted)}, {place}; write `>{' '.join(wanted)}`"
      )
      continue
    label = words[1] if columns[1] is not None else None
    split = words[len(wanted) - 1] if columns[2] is not None else None
    yield Row(place, "\n".join(record.lines), label, split)
