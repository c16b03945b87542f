"""Reads tables with delimiters between columns: CSV, TSV, and what spreadsheets write under these names."""

import csv
import itertools
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

from discipline_jax.errors import UserError
from discipline_jax.tasks.readers.rows import Column, Row, clean, find_columns

_FIELD_LIMIT = 2**31 - 1  # characters; csv's own limit is shorter than a chromosome
_DELIMITERS = (",", ";", "\t", "|")
# The first line of a table that Excel wrote can name the delimiter.
_SEP = re.compile(r'"?sep=([^\w\s"]|\t)"?[\s,;|]*$', re.IGNORECASE)
# A text that a spreadsheet must not change: ="0012".
_FORMULA = re.compile(r'="([^"]*)"')


def read_delimited(
  lines: Iterable[str],
  path: pathlib.Path,
  columns: Sequence[Column | None],
  delimiter: str,
  *,
  quotes: bool = True,
) -> Iterator[Row | UserError]:
  """Yields the rows of a table; a row that cannot be read is yielded as its error.

  The delimiter is found from the header, because many programs write semicolons or tabs into a .csv file. Rows without
  any text are left out. A row may lack empty columns at its end, or have more of them than the header. A cell ="ACGT"
  is the text ACGT, as in spreadsheets, unless quotes are ordinary characters.

  Args:
    lines: all lines of the file.
    path: the file, for messages.
    columns: the columns of sequence, label, split and the extra ones; None for one that is not read.
    delimiter: the delimiter that the file's name promises; the header decides if it has the columns with another one.
    quotes: False: quotes are ordinary characters.

  Raises:
    UserError: the header lacks a column, or quotes are wrong.
  """
  csv.field_size_limit(_FIELD_LIMIT)
  lines, delimiter, quote = _dialect(lines, columns, delimiter, quotes, path)
  reader = csv.reader(
    lines,
    delimiter=delimiter,
    quotechar=quote,
    strict=True,
    skipinitialspace=quotes,  # `"ACGT", "yes"`
    quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
  )
  names: list[str] = []
  places: list[int | None] = []
  place = f"{path}:1"
  try:
    for cells in reader:
      fields = [_text(cell) for cell in cells] if quotes else cells
      here, place = place, f"{path}:{reader.line_num + 1}"
      # Also `,,,`, an empty row of a spreadsheet; but "" in a table of one column is an empty cell.
      if not any(field.strip() for field in fields) and (len(names) != 1 or not fields):
        continue
      if not names:
        names = [clean(name) for name in fields]
        places = _header(columns, names, here)
        continue
      wrong = _misfit(fields, names, delimiter)
      if wrong is not None:
        what, remedy = wrong
        yield UserError(f"{what}, {here}; {remedy}")
        continue
      sequence, label, split, *extra = (None if i is None else fields[i] for i in places)
      yield Row(here, sequence, label, split, tuple(extra))
  except csv.Error as error:
    reason = str(error).replace("\t", "\\t")
    raise UserError(f"not a CSV line ({reason}), {place}; correct the line") from None


def _text(cell: str) -> str:
  """Returns the text of a cell; a whole cell is looked at only if it begins as a formula does."""
  formula = _FORMULA.fullmatch(cell)
  return cell if formula is None else formula[1]


def _header(columns: Sequence[Column | None], names: Sequence[str], place: str) -> list[int | None]:
  """Returns the places of the columns; raises UserError if one is missing, or if two columns have one name."""
  twice = [name for name in names if name and names.count(name) > 1]
  if twice:
    raise UserError(f"two columns have the name {twice[0]!r}, {place}; rename one")
  remedy = "write the names of the columns into the first line"
  return find_columns(columns, names, place, remedy)


def _misfit(fields: list[str], names: list[str], delimiter: str) -> tuple[str, str] | None:
  """Returns what is wrong with a row, and a remedy; None if it fits the header."""
  if len(names) > 1 and [clean(field).casefold() for field in fields] == [
    name.casefold() for name in names
  ]:
    return "the header again", "delete the line, which joining tables leaves behind"
  if any(fields[len(names) :]) or any(names[len(fields) :]):
    return (
      f"{len(fields)} fields where the header has {len(names)}",
      f"correct the line, and quote a field that holds the delimiter {delimiter!r}",
    )
  return None


def _dialect(
  lines: Iterable[str],
  columns: Sequence[Column | None],
  default: str,
  quotes: bool,
  path: pathlib.Path,
) -> tuple[Iterator[str], str, str]:
  """Returns all lines again, the delimiter and the quote character.

  They are those with which the header has all columns; if it never has, those that give the most columns.
  """
  lines = iter(lines)
  before: list[str] = []
  delimiters = (default, *(other for other in _DELIMITERS if other != default))
  header = ""
  for line in lines:
    named = _SEP.match(line.strip("\r\n")) if not any(text.strip() for text in before) else None
    if named:
      delimiters, line = (named[1],), "\n"  # the line still counts
    before.append(line)
    if line.strip(" \r\n" + "".join(delimiters)):
      header = line.strip("\r\n")
      break
  if "\0" in header:
    raise UserError(
      f"the header holds the character '\\x00', as UTF-16 text does, {path}:{len(before)}; save it as UTF-8"
    )
  wanted = {clean(column.name) for column in columns if column is not None}
  found = {
    (delimiter, quote): _names(header, delimiter, quote, quotes)
    for quote in ('"', "'")
    for delimiter in delimiters
  }
  fitting = next((dialect for dialect, names in found.items() if wanted <= names), None)
  delimiter, quote = fitting or max(
    ((delimiter, '"') for delimiter in delimiters), key=lambda dialect: len(found[dialect])
  )
  return itertools.chain(before, lines), delimiter, quote


def _names(header: str, delimiter: str, quote: str, quotes: bool) -> set[str]:
  try:
    fields = next(
      csv.reader(
        [header],
        delimiter=delimiter,
        quotechar=quote,
        skipinitialspace=quotes,
        quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
      ),
      [],
    )
  except csv.Error:
    return set()
  return {clean(name) for name in fields}
