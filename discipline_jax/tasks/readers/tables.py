"""Reads tables of sequences in the formats that users have: CSV, TSV, JSON lines or FASTA; plain, gzip or xz."""

import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record, parse
from discipline_jax.files.packed_text import kind_of, lines
from discipline_jax.tasks.readers.delimited import read_delimited
from discipline_jax.tasks.readers.fasta import BY_WORDS, HeaderForm, read_header
from discipline_jax.tasks.readers.label_lines import Labelled, read_label_lines, refuse_label_lines
from discipline_jax.tasks.readers.rows import Column, Row, find_columns

_FASTA = (".fa", ".faa", ".fasta", ".fna")
_FASTA_COLUMNS = ("name", "header")
_REMEDY = "give a CSV, TSV, JSONL or FASTA file as task.path"


def read_table(
  path: pathlib.Path,
  sequence_column: str,
  label_column: str | None,
  split_column: str | None,
  *,
  extra_columns: Sequence[Column] = (),
  tsv_quotes: bool = True,
  header_form: HeaderForm = BY_WORDS,
  label_form: str = "word",
  skip_invalid: bool = False,
) -> list[Row | UserError]:
  """Reads all rows of a table; see `each_row`."""
  columns = [
    Column(sequence_column, "task.sequence_column"),
    None if label_column is None else Column(label_column, "task.label_column"),
    None if split_column is None else Column(split_column, "task.splits"),
    *extra_columns,
  ]
  rows = each_row(
    path,
    columns,
    tsv_quotes=tsv_quotes,
    header_form=header_form,
    label_form=label_form,
    skip_invalid=skip_invalid,
  )
  return list(rows)


def each_row(
  path: pathlib.Path,
  columns: Sequence[Column | None],
  *,
  tsv_quotes: bool = True,
  header_form: HeaderForm = BY_WORDS,
  label_form: str = "word",
  skip_invalid: bool = False,
) -> Iterator[Row | UserError]:
  """Yields the rows of a table as they are read; a row that cannot be read is yielded as its error.

  A FASTA file has no column names. Its headers are `>name label split`, or `>name label` or `>name split` if only one
  of the two columns is asked for; `readers.label_lines` says how it has labels of positions. Its extra columns are
  `name`, the first word of a header, and `header`, all of it.

  Lines end with a line feed, a carriage return, or both.

  Args:
    path: the file. Its suffix gives the format: .csv, .tsv, .jsonl, .fa, .faa, .fasta or .fna, each also with .gz or
      .xz after it.
    columns: the columns with the sequences, the labels and the splits (None: read none), and further ones to read,
      such as that with the second text of a pair.
    tsv_quotes: True: quotes in a .tsv file quote, as in a .csv file; False: they are ordinary characters.
    header_form: where a FASTA header has the label and the split.
    label_form: how a label is written, see `tasks.answer.Answer`. With `list` and `positions`, the label of a JSON
      object may be a list; with `positions`, FASTA has the labels on lines of their own.
    skip_invalid: whether rows that cannot be read will be left out, see `readers.label_lines`.

  Raises:
    UserError: the whole file is unusable: its name, packing, encoding, quotes or header is wrong, or it has no rows.
  """
  kind = kind_of(path)
  content = _split_at_returns(lines(path, _REMEDY))
  if header_form != BY_WORDS and kind not in _FASTA:
    raise UserError(
      f"task.label_separator and task.label_pattern are for the headers of FASTA, {path}; unset them"
    )
  if kind == ".csv":
    rows: Iterator[Row | UserError] = read_delimited(content, path, columns, ",")
  elif kind == ".tsv":
    rows = read_delimited(content, path, columns, "\t", quotes=tsv_quotes)
  elif kind == ".jsonl":
    rows = _read_json(content, path, columns, takes_lists=label_form != "word")
  elif kind in _FASTA:
    has_labels, has_lines = columns[1] is not None, label_form == "positions"
    if has_lines and not has_labels:
      refuse_label_lines(_records(_split_at_returns(lines(path, _REMEDY)), path))
    samples = _fasta_samples(_records(content, path), has_lines and has_labels, skip_invalid)
    rows = _read_fasta(samples, path, columns, header_form, has_label_lines=has_lines)
  else:
    raise UserError(
      f"the suffix of {path.name!r} is none of .csv, .tsv, .jsonl, {', '.join(_FASTA)}, {path}; {_REMEDY}"
    )
  is_empty = True
  for row in rows:
    is_empty = False
    yield row
  if is_empty:
    raise UserError(f"the table has no rows, {path}; {_REMEDY}")


def _split_at_returns(lines: Iterable[str]) -> Iterator[str]:
  """Splits lines at carriage returns, too, which alone end the lines of some programs; line ends stay.

  The parts of a quoted cell become one cell again, because the csv module joins its lines.
  """
  for line in lines:
    if "\r" in line.removesuffix("\n").removesuffix("\r"):
      yield from re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", line)
    else:
      yield line


def _read_json(
  lines: Iterable[str], path: pathlib.Path, columns: Sequence[Column | None], *, takes_lists: bool
) -> Iterator[Row | UserError]:
  for number, line in enumerate(lines, 1):
    if line.strip():
      try:
        row: Row | UserError = _json_row(line, f"{path}:{number}", columns, takes_lists)
      except UserError as error:
        row = error
      yield row


def _json_row(line: str, place: str, columns: Sequence[Column | None], takes_lists: bool) -> Row:
  try:
    record = json.loads(line, object_pairs_hook=_object)
    if "\\u" in line:  # an escape can write half of a surrogate pair, which no text file can hold
      json.dumps(record, ensure_ascii=False).encode()
  except (ValueError, RecursionError) as error:
    reason = getattr(error, "msg", str(error))
    raise UserError(
      f"not a JSON object ({reason}), {place}; write one object on each line"
    ) from None
  if not isinstance(record, dict):
    raise UserError(f"not a JSON object, {place}; write one object on each line")
  values = list(record.values())
  places = find_columns(columns, list(record), place, "correct the line")
  sequence, label, split, *extra = (None if i is None else values[i] for i in places)
  is_list = takes_lists and isinstance(label, list)
  if label is not None and not is_list and not isinstance(label, str | int | float):
    raise UserError(
      f"the label {str(label)[:40]!r} is neither text nor a number, {place}; correct the line"
    )
  return Row(
    place,
    sequence,
    label if is_list or label is None else json_text(label),
    None if split is None else json_text(split),
    tuple(extra),
  )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  record = dict(pairs)
  if len(record) < len(pairs):  # JSON's reader would take the last one
    names = [name for name, _ in pairs]
    raise ValueError(f"two fields {max(names, key=names.count)!r}")
  return record


def json_text(value: Any) -> str:
  """Returns a JSON value as text. JSON has one kind of number, so 1.0 becomes `1`."""
  if isinstance(value, str):
    return value
  if isinstance(value, float) and value.is_integer():
    return str(int(value))
  return json.dumps(value)


def _records(lines: Iterable[str], path: pathlib.Path) -> Iterator[Record]:
  return parse((line.strip() for line in lines), path)


def _fasta_samples(
  records: Iterable[Record], has_label_lines: bool, skip_invalid: bool
) -> Iterator[Labelled | UserError]:
  """Yields each record with its sequence, and its labels if they are on lines of their own."""
  if has_label_lines:
    yield from read_label_lines(list(records), skip_invalid)
  else:
    for record in records:
      yield record, "\n".join(record.lines), ""


def _read_fasta(
  samples: Iterable[Labelled | UserError],
  path: pathlib.Path,
  columns: Sequence[Column | None],
  form: HeaderForm,
  *,
  has_label_lines: bool,
) -> Iterator[Row | UserError]:
  _, label_column, split_column, *others = columns
  extra_columns = [column for column in others if column is not None]
  for column in extra_columns:
    if column.name not in _FASTA_COLUMNS:
      raise UserError(
        f"FASTA has no column {column.name!r}, {path}; it has {' and '.join(_FASTA_COLUMNS)}: change"
        f" --config.{column.field}, or give a table of another format"
      )
  wanted = [
    word
    for word, column in (("label", label_column), ("split", split_column))
    if column is not None and not (has_label_lines and word == "label")
  ]
  form.check(wanted)
  for sample in samples:
    if isinstance(sample, UserError):
      yield sample
      continue
    record, sequence, labels = sample
    place = f"{path}:{record.line}"
    try:
      values = read_header(record.header, wanted, form, place)
    except UserError as error:
      yield error
      continue
    extra = {"name": record.name, "header": record.header}
    yield Row(
      place,
      sequence,
      labels if has_label_lines and label_column is not None else values.get("label"),
      values.get("split"),
      tuple(extra[column.name] for column in extra_columns),
    )
