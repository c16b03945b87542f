"""Tables of sequences as users have them: CSV, TSV, JSON lines or FASTA, plain, gzip or xz."""

import csv
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.packed_text import kind_of, lines
from discipline_jax.tasks.fasta import parse

_FASTA = (".fa", ".faa", ".fasta", ".fna")
_FIELD_LIMIT = 2**31 - 1  # characters; csv's own limit is less than a chromosome
_REMEDY = "give a CSV, TSV, JSONL or FASTA file as task.path"


@dataclasses.dataclass(frozen=True)
class Row:
  """One row of a table.

  Attributes:
    place: `file:line`, the first one of the row.
    sequence: as it stands there: a text, or a JSON list.
    label: as text; None where there is none.
    split: the name of its part; None where the table does not say.
  """

  place: str
  sequence: Any
  label: str | None
  split: str | None


def read_table(
  path: pathlib.Path,
  sequence_column: str,
  label_column: str | None,
  split_column: str | None,
  *,
  tsv_quotes: bool = True,
) -> list[Row | UserError]:
  """Reads a whole table; a row that cannot be read has its error in its place.

  In FASTA a header is `>name label split`, and only whether a column is asked for counts, not its name.

  Args:
    path: its suffix says the format: .csv, .tsv, .jsonl, or .fa, .faa, .fasta, .fna; each also with .gz or .xz.
    sequence_column, label_column, split_column: names; None: not wanted.
    tsv_quotes: whether quotes mean in .tsv what they mean in .csv, or are characters like any other.

  Raises:
    UserError: for the file as a whole: its name, packing, encoding, quotes or header, or no row.
  """
  kind = kind_of(path)
  columns = [sequence_column, label_column, split_column]
  content = lines(path, _REMEDY)
  if kind == ".csv":
    rows = list(_read_csv(content, path, columns, ","))
  elif kind == ".tsv":
    rows = list(_read_csv(content, path, columns, "\t", quotes=tsv_quotes))
  elif kind == ".jsonl":
    rows = list(_read_json(content, path, columns))
  elif kind in _FASTA:
    rows = list(_read_fasta(content, path, columns))
  else:
    raise UserError(
      f"{path.name} ends in none of .csv .tsv .jsonl {' '.join(_FASTA)}, {path}; {_REMEDY}"
    )
  if not rows:
    raise UserError(f"no row, {path}; {_REMEDY}")
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
          raise UserError(f"two columns {twice[0]!r}, {here}; rename one")
        places = [None if name is None else _place(name, header, here) for name in columns]
        continue
      if len(fields) != len(header):
        yield UserError(
          f"{len(fields)} fields where the header has {len(header)}, {here}; correct the line"
        )
        continue
      sequence, label, split = (None if i is None else fields[i] for i in places)
      yield Row(here, sequence, label, split)
  except csv.Error as error:
    reason = str(error).replace("\t", "\\t")
    raise UserError(f"not a CSV line ({reason}), {place}; correct the line") from None


def _place(name: str, header: list[str], place: str) -> int:
  if name not in header:
    raise UserError(
      f"no column {name!r} but {', '.join(header)[:200]}, {place}; set task.sequence_column, task.label_column"
      " or task.splits"
    )
  return header.index(name)


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
    if "\\u" in line:  # which can write half a pair of surrogates, which is no text
      json.dumps(record, ensure_ascii=False).encode()
  except (ValueError, RecursionError) as error:
    reason = getattr(error, "msg", str(error))
    raise UserError(f"not a JSON object ({reason}), {place}; correct the line") from None
  if not isinstance(record, dict):
    raise UserError(f"not a JSON object, {place}; write one a line")
  sequence, label, split = (
    None if name is None else record[list(record)[_place(name, list(record), place)]]
    for name in columns
  )
  if label is not None and not isinstance(label, str | int | float):
    raise UserError(
      f"the label {str(label)[:40]!r} is neither text nor a number, {place}; correct the line"
    )
  return Row(
    place,
    sequence,
    None if label is None else json_text(label),
    None if split is None else json_text(split),
  )


def json_text(value: Any) -> str:
  """A value as text; JSON has one kind of number, so that 1.0 is 1."""
  if isinstance(value, str):
    return value
  if isinstance(value, float) and value.is_integer():
    return str(int(value))
  return json.dumps(value)


def _read_fasta(
  lines: Iterable[str], path: pathlib.Path, columns: list[str | None]
) -> Iterator[Row | UserError]:
  wanted = sum(column is not None for column in columns)
  for record in parse((line.strip() for line in lines), path):
    words, place = record.header.split(), f"{path}:{record.line}"
    if len(words) < wanted:
      yield UserError(
        f"{len(words)} words in a header that needs {wanted}, {place}; write `>name label split`"
      )
      continue
    label = words[1] if columns[1] is not None else None
    split = words[wanted - 1] if columns[2] is not None else None
    yield Row(place, "\n".join(record.lines), label, split)
