"""Reads a table of the user's own into samples: symbols and a label for each row, by part."""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import logging
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.tasks.answers import KINDS
from discipline_jax.tasks.class_names import missing
from discipline_jax.tasks.readers.fasta import HeaderForm
from discipline_jax.tasks.readers.lines import each_valid, keep_valid
from discipline_jax.tasks.readers.tables import Row, each_row, json_text, read_table
from discipline_jax.tasks.symbols import CASES, SYMBOLS, Spelling, check_known, letters_with_blanks

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


@dataclasses.dataclass(frozen=True)
class Format:
  """Settings for reading a table: fields of a config's `task`, which `defaults` explains."""

  sequence_column: str
  label_column: str
  splits: str | None
  symbols: str
  kind: str
  skip_invalid: bool
  k: int = 3
  case: str = "as_is"
  label_separator: str | None = None
  label_pattern: str | None = None
  group_column: str | None = None
  reverse_complement: str = "off"

  @property
  def spelling(self) -> Spelling:
    """The way in which the table writes sequences."""
    return Spelling(self.symbols, self.k, self.case)

  def check(self) -> None:
    """Raises UserError if the value of a field is not one of its choices."""
    for name, value, choices in (
      ("symbols", self.symbols, SYMBOLS),
      ("case", self.case, CASES),
      ("kind", self.kind, tuple(KINDS)),
    ):
      if value not in choices:
        raise UserError(f"task.{name} = {value!r} is not one of: {', '.join(choices)}")
    if self.symbols == "smiles" and self.case == "upper":
      raise UserError(
        "task.case = 'upper' would make other atoms of the aromatic ones of SMILES (c is an aromatic C); set"
        " --config.task.case=as_is"
      )
    if self.group_column is not None and self.splits is not None:
      raise UserError(
        f"task.group_column = {self.group_column!r} is for random parts, but task.splits = {self.splits!r} gives the"
        " parts; unset one of the two"
      )
    if self.k < 1:
      raise UserError(f"task.k = {self.k} letters; set --config.task.k to at least 1")
    if self.k != Spelling.k and self.symbols != "kmers":
      raise UserError(
        f"task.k = {self.k} is for k-mers, but task.symbols = {self.symbols!r}; set --config.task.symbols=kmers, or"
        " leave task.k unset"
      )


def task_format(task: ConfigDict) -> Format:
  """Returns the format that the `task` of a config describes."""
  return Format(**{field.name: task[field.name] for field in dataclasses.fields(Format)})


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
  header_form = HeaderForm(form.label_separator, form.label_pattern)
  tables = {
    part: read_table(
      file,
      form.sequence_column,
      form.label_column,
      form.splits,
      extra_columns=() if form.group_column is None else (form.group_column,),
      header_form=header_form,
    )
    for part, file in files.items()
  }
  rows = [row for table in tables.values() for row in table if isinstance(row, Row)]
  refused = KINDS[form.kind].refused([row.label for row in rows])
  spelling = _with_blanks(form.spelling, rows, path)
  parts: dict[str, list[Sample]] = {}
  for name, table in tables.items():

    def read(row: Row, name: str = name) -> Sample:
      part = _part(row, form, name)
      own = spelling.split(row.sequence, row.place)
      _check_allowed(own, allowed if part in ("all", "train") else None, form, row.place)
      label = _label(row, form, refused)
      if form.group_column is not None:
        _check_group(row, form.group_column)
      return dataclasses.replace(row, split=part), own, label

    for sample in keep_valid(table, read, form.skip_invalid, files[name]):
      parts.setdefault(str(sample[0].split), []).append(sample)
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
  if form.label_column == form.sequence_column:
    raise UserError(
      f"task.label_column = {form.label_column!r} is task.sequence_column, too; set one of them to another column"
    )


def unlabelled_rows(
  path: pathlib.Path,
  form: Format,
  *,
  extra_columns: Sequence[str] = (),
  check: Callable[[Row, Sequence[str]], Sequence[str]] | None = None,
) -> Callable[[], Iterator[tuple[Row, Sequence[str]]]]:
  """Returns a function that reads a table anew, and yields its rows with their symbols, but without labels.

  Args:
    path: a table.
    form: how to read it. With `skip_invalid`, invalid rows are left out and counted.
    extra_columns: further columns to read.
    check: returns the symbols of a row as they are to be used, or raises UserError if they are invalid.

  Raises:
    UserError: an invalid row, with file and line; the function raises it, too.
  """

  def table() -> Iterator[Row | UserError]:
    return each_row(path, [form.sequence_column, None, None, *extra_columns])

  rows = (row for row in table() if isinstance(row, Row))
  spelling = _with_blanks(form.spelling, rows, str(path))

  def read(row: Row) -> tuple[Row, Sequence[str]]:
    own = spelling.split(row.sequence, row.place)
    return row, own if check is None else check(row, own)

  return lambda: each_valid(table(), read, form.skip_invalid, path)


def _warn_of_names(rows: Sequence[Row], form: Format, path: str) -> None:
  """Logs labels that are the names of parts, and sequences that are a word for a missing one."""
  labels = {(row.label or "").strip().lower() for row in rows}
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


def _with_blanks(spelling: Spelling, rows: Iterable[Row], path: str) -> Spelling:
  """Returns the spelling, with blanks between letters if the rows have them; a warning says so."""
  if spelling.kind not in ("characters", "kmers"):
    return spelling
  has_blanks, joined = letters_with_blanks(row.sequence for row in rows)
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
  key = KINDS[form.kind].key
  trained = {key(label) for _, _, label in parts["train"]}

  def check(sample: Sample) -> Sample:
    row, _, label = sample
    if key(label) not in trained:
      raise UserError(
        f"no training row has the label {label!r} of the {row.split} part, {row.place}; correct it, give training rows"
        " of this class, or leave the row out (task.skip_invalid leaves out all that are invalid)"
      )
    return sample

  known = {symbol for _, own, _ in parts["train"] for symbol in own}
  checked = {"train": parts["train"]}
  for part in parts.keys() - {"train"}:
    checked[part] = keep_valid(parts[part], check, form.skip_invalid, pathlib.Path(path))
    check_known([(row.place, own) for row, own, _ in checked[part]], known, _UNSEEN)
  return {part: checked[part] for part in parts}
