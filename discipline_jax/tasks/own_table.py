"""Reads a table of the user's own into samples: symbols and a label for each row, by part."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.tasks.answers import KINDS
from discipline_jax.tasks.class_names import class_name, missing
from discipline_jax.tasks.label_sets import read_columns
from discipline_jax.tasks.readers.fasta import HeaderForm
from discipline_jax.tasks.readers.lines import each_valid, keep_valid
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.readers.tables import Row, each_row, json_text, read_table
from discipline_jax.tasks.symbols import Spelling, check_known, letters_with_blanks
from discipline_jax.tasks.table_format import Format

_ALIASES = {
  "train": ("train", "training"),
  "validation": ("validation", "valid", "val", "dev", "development"),
  "test": ("test", "testing"),
}
_PARTS = {alias: part for part, aliases in _ALIASES.items() for alias in aliases}
_UNSEEN = {
  "upper": "set --config.task.case=upper",
  "lower": "set --config.task.case=upper, which reads both as upper case",
  "mixed": "set --config.task.case=upper",
  "other": "check that the parts are written alike, and task.symbols",
}

# A row, its symbols, and its parsed label.
Sample = tuple[Row, Sequence[str], Any]


def part_files(path: str) -> dict[str, pathlib.Path]:
  """Returns the files of a `task.path`: `all`, or one for each part if the path holds `{split}`.

  In place of `validation` a name may have `val`, and so on, as the values of `task.splits`. A part without a file has
  the name that it should have; `test` is left out if it has none.

  Raises:
    UserError: two files for one part.
  """
  whole = copies.local(place(path))
  if "{split}" not in path:
    copies.refresh([whole])
    return {"all": whole}
  copies.refresh(
    pathlib.Path(str(whole).replace("{split}", form(alias)))
    for aliases in _ALIASES.values()
    for alias in aliases
    for form in _FORMS
  )
  files = {}
  for part, aliases in _ALIASES.items():
    names = [str(whole).replace("{split}", form(alias)) for alias in aliases for form in _FORMS]
    found = [pathlib.Path(name) for name in names if pathlib.Path(name).exists()]
    others = [one for one in found if not one.samefile(found[0])]
    if others:
      raise UserError(
        f"two files are the {part} part, {found[0]} and {others[0]}; rename or remove one of them"
      )
    if found or part != "test":
      files[part] = found[0] if found else pathlib.Path(names[0])
  return files


_FORMS: tuple[Callable[[str], str], ...] = (str, str.capitalize, str.upper)


def read_parts(path: str, form: Format, allowed: set[str] | None) -> dict[str, list[Sample]]:
  """Returns the samples of a table by part: `all`, or `train`, `validation` and, if there is one, `test`.

  Args:
    path: `task.path`.
    form: how to read it. With `skip_invalid`, invalid rows are left out and counted.
    allowed: the characters, words or integers that samples to train on may have; None if they may have any.

  Raises:
    UserError: an invalid table or row, with file and line; a part that is missing; a class that training lacks; a part
      that consists of symbols that training lacks.
  """
  files = part_files(path)
  _check_fields(form, files, path)
  if files.keys() == {"train", "validation"}:
    name = str(place(path)).replace("{split}", "test")
    logging.warning("no file %s: the validation part is the test", name)
  kind, tables = KINDS[form.kind], _tables(files, form, path)
  rows = [row for table in tables.values() for row in table if isinstance(row, Row)]
  refused = kind.refused([row.label for row in rows if not isinstance(row.label, list)])
  spelling = _with_blanks(form, rows, path)
  parts: dict[str, list[Sample]] = {}
  for name, table in tables.items():

    def read(row: Row, name: str = name) -> Sample:
      part = _part(row, form, name)
      row, own = _symbols(row, form, spelling)
      _check_allowed(own, allowed if part in ("all", "train") else None, form, row.place)
      label = kind.aligned(_label(row, form, refused), own, row.place, form.ignore_label)
      if form.group_column is not None:
        _check_group(row, form.group_column)
      return dataclasses.replace(row, split=part), own, label

    for sample in keep_valid(table, read, form.skip_invalid, files[name]):
      parts.setdefault(str(sample[0].split), []).append(sample)
  if form.binary_columns:
    _check_columns(parts, form.binary_columns, path)
  _warn_of_names(rows, form, path)
  if "all" in parts:
    return parts
  for part in ("train", "validation"):
    if part not in parts:
      raise UserError(
        f"no row of the {part} part in column {form.splits!r}, {path}; give at least train and validation"
      )
  if "test" not in parts and "all" in files:
    logging.warning("no row of the test part, %s: the validation part is the test", path)
  return _checked_parts({part: parts[part] for part in _ALIASES if part in parts}, form, path)


def _tables(
  files: Mapping[str, pathlib.Path], form: Format, path: str
) -> dict[str, list[Row | UserError]]:
  """Reads the tables of all parts; `extra` of a row is its group, if there are groups, and the second of a pair."""
  columns = form.binary_columns
  tables = {
    part: read_table(
      file,
      form.sequence_columns[0],
      None if columns else form.label_column,
      form.splits,
      extra_columns=form.extra_columns,
      header_form=HeaderForm(form.label_separator, form.label_pattern),
      label_form=KINDS[form.kind].form,
      skip_invalid=form.skip_invalid,
    )
    for part, file in files.items()
  }
  if columns:
    tables = {part: _with_labels(table, columns) for part, table in tables.items()}
  return tables


def _check_fields(form: Format, files: Mapping[str, pathlib.Path], path: str) -> None:
  """Raises UserError for columns that do not go together, or not with a file for each part."""
  if form.splits is not None and "all" not in files:
    raise UserError(
      f"task.splits = {form.splits!r}, but task.path = {path!r} has a file for each part; unset one of the two"
    )
  if form.group_column is not None and "all" not in files:
    raise UserError(
      f"task.group_column = {form.group_column!r} is for random parts, but task.path = {path!r} has a file for each"
      " part; unset one of the two"
    )
  if {*form.sequence_columns} & {form.label_column, *form.binary_columns}:
    raise UserError(
      f"task.label_column = {form.label_column!r} is task.sequence_column, too; set one of them to another column"
    )


def unlabelled_rows(
  path: pathlib.Path,
  form: Format,
  *,
  extra_columns: Sequence[Column] = (),
  label_form: str = "word",
  check: Callable[[Row, Sequence[str]], Sequence[str]] | None = None,
) -> Callable[[], Iterator[tuple[Row, Sequence[str]]]]:
  """Returns a function that reads a table anew, and yields its rows with their symbols, but without labels.

  Args:
    path: a table.
    form: how to read it. With `skip_invalid`, invalid rows are left out and counted.
    extra_columns: further columns to read.
    label_form: how the table would have labels; FASTA that seems to have them on lines of their own is refused.
    check: returns the symbols of a row as they are to be used, or raises UserError if they are invalid.

  Raises:
    UserError: an invalid row, with file and line; the function raises it, too.
  """
  first, *second = (Column(name, "task.sequence_column") for name in form.sequence_columns)
  columns = [first, None, None, *extra_columns, *second]

  def table() -> Iterator[Row | UserError]:
    return each_row(path, columns, label_form=label_form)

  rows = (row for row in table() if isinstance(row, Row))
  spelling = _with_blanks(form, rows, str(path))

  def read(row: Row) -> tuple[Row, Sequence[str]]:
    row, own = _symbols(row, form, spelling)
    return row, own if check is None else check(row, own)

  return lambda: each_valid(table(), read, form.skip_invalid, path)


def _with_labels(table: Sequence[Row | UserError], columns: Sequence[str]) -> list[Row | UserError]:
  """Returns the rows with a list of the columns that hold 1 as their label; a row with another value is its error."""
  rows: list[Row | UserError] = []
  for row in table:
    if isinstance(row, Row):
      first = len(row.extra) - len(columns)
      try:
        names = read_columns(row.extra[first:], columns, row.place)
        row = dataclasses.replace(row, label=names, extra=row.extra[:first])
      except UserError as error:
        row = error
    rows.append(row)
  return rows


def _check_columns(
  parts: Mapping[str, Sequence[Sample]], columns: Sequence[str], path: str
) -> None:
  """Raises UserError if a column holds 1 in no row, so that nothing can be learnt of it."""
  names = {name for samples in parts.values() for _, _, label in samples for name in label}
  lost = [column for column in columns if class_name(column) not in names]
  if lost:
    raise UserError(
      f"column {lost[0]!r} holds 1 in no row, {path}; leave it out of task.label_column"
    )


def _warn_of_names(rows: Sequence[Row], form: Format, path: str) -> None:
  """Logs labels that are the names of parts, and sequences that are a word for a missing one."""
  labels = {
    "" if isinstance(row.label, list) else (row.label or "").strip().lower() for row in rows
  }
  if form.splits is None and len(labels) > 1 and labels <= _PARTS.keys():
    logging.warning(
      "all labels are the names of parts (%s), %s; if they are not classes, set --config.task.splits, and"
      " --config.task.label_column",
      ", ".join(sorted(labels)),
      path,
    )
  words = [row for row in rows if isinstance(row.sequence, str) and missing([row.sequence])]
  if words:
    logging.warning(
      "%d sequences are %r or similar, which may stand for a missing one, %s; if so, leave the rows out",
      len(words),
      str(words[0].sequence).strip(),
      words[0].place,
    )


def _symbols(row: Row, form: Format, spelling: Spelling) -> tuple[Row, Sequence[str]]:
  """Returns the symbols of a row; of a pair, of both sequences, and the row with the number of the first one's."""
  own = spelling.split(row.sequence, row.place)
  if len(form.sequence_columns) == 1:
    return row, own
  second = spelling.split(row.extra[-1], row.place)
  both = own + second if isinstance(own, str) and isinstance(second, str) else [*own, *second]
  return dataclasses.replace(row, extra=row.extra[:-1], first=len(own)), both


def _with_blanks(form: Format, rows: Iterable[Row], path: str) -> Spelling:
  """Returns the spelling, with blanks between letters if the rows have them; a warning says so."""
  spelling = form.spelling
  if spelling.kind not in ("characters", "kmers"):
    return spelling
  seconds = len(form.sequence_columns) - 1
  sequences = (one for row in rows for one in (row.sequence, *row.extra[-1:][:seconds]))
  has_blanks, joined = letters_with_blanks(sequences)
  if has_blanks:
    logging.warning(
      "blanks between the letters of a sequence are left out, %s%s",
      path,
      f"; some are missing, as in {' '.join(joined)[:40]}" if joined else "",
    )
  return dataclasses.replace(spelling, has_blanks=has_blanks)


def _part(row: Row, form: Format, default: str) -> str:
  if form.splits is None:
    return default
  name = (row.split or "").strip().lower()
  if name not in _PARTS:
    raise UserError(
      f"the split {row.split!r} is not one of {', '.join(_PARTS)}, {row.place}; correct the line"
    )
  return _PARTS[name]


def _check_allowed(own: Sequence[str], allowed: set[str] | None, form: Format, place: str) -> None:
  """Raises UserError for a symbol that `task.alphabet` lacks; of a k-mer, for a letter."""
  if allowed is None:
    return
  letters = "".join(own) if form.symbols == "kmers" else own
  wrong = next((one for one in letters if one not in allowed), None)
  if wrong is not None:
    raise UserError(
      f"the symbol {wrong!r} is not in task.alphabet, {place}; add it, or correct the line"
    )


def _check_group(row: Row, column: str) -> None:
  (group,) = row.extra
  text = json_text(group).strip() if isinstance(group, str | int | float) else ""
  if not text or missing([text]):
    raise UserError(
      f"no group in column {column!r}, but {text!r}, {row.place}; give each row a group (a new one if no other row is"
      " related)"
    )


def _label(row: Row, form: Format, refused: Mapping[str, str]) -> Any:
  if isinstance(row.label, list):
    return KINDS[form.kind].parse(row.label, row.place)
  text = (row.label or "").strip()
  if text in refused:
    rename = ", or rename the class if it is one" if form.kind == "classification" else ""
    raise UserError(
      f"the label {text!r} {refused[text]}, {row.place}; correct it, leave the row out (task.skip_invalid leaves out"
      f" all that are invalid){rename}"
    )
  return KINDS[form.kind].parse(text, row.place)


def _checked_parts(
  parts: dict[str, list[Sample]], form: Format, path: str
) -> dict[str, list[Sample]]:
  """Returns the parts, without samples of classes that training lacks if invalid ones are to be left out."""
  keys = KINDS[form.kind].keys
  trained = {key for _, _, label in parts["train"] for key in keys(label)}

  def check(sample: Sample) -> Sample:
    row, _, label = sample
    lost = sorted(map(str, {*keys(label)} - trained))
    if lost:
      raise UserError(
        f"no training row has the label {lost[0]!r} of the {row.split} part, {row.place}; correct it, give training"
        " rows of this class, or leave the row out (task.skip_invalid leaves out all that are invalid)"
      )
    return sample

  known = {symbol for _, own, _ in parts["train"] for symbol in own}
  checked = {"train": parts["train"]}
  for part in parts.keys() - {"train"}:
    checked[part] = keep_valid(parts[part], check, form.skip_invalid, pathlib.Path(path))
    check_known([(row.place, own) for row, own, _ in checked[part]], known, _UNSEEN)
  return {part: checked[part] for part in parts}
