"""Reads sequences, labels and splits from FASTA records."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record, parse
from discipline_jax.letters import upper
from discipline_jax.tasks.examples import Alphabet
from discipline_jax.tasks.readers.lines import read_lines


def symbols_of(record: Record, alphabet: Alphabet, kind: str) -> str:
  """Returns the sequence of a record in upper case, with its blanks removed.

  Args:
    record: the record.
    alphabet: the allowed symbols.
    kind: a name for such a symbol in error messages, for example `an amino acid`.

  Raises:
    UserError: the sequence is empty or has a character outside the alphabet; with file and line.
  """
  sequence = upper("".join(record.lines).replace(" ", ""))
  if not sequence:
    raise UserError(
      f"no sequence follows the header {record.header[:40]!r}, {record.path}:{record.line};"
      " add the sequence, or delete the header"
    )
  wrong = alphabet.unknown(sequence)
  if wrong is not None:
    place = next(i for i, line in enumerate(record.lines, 1) if wrong in upper(line))
    raise UserError(
      f"{wrong!r} is not {kind} ({''.join(alphabet.symbols)}{''.join(alphabet.aliases)}),"
      f" {record.path}:{record.line + place}; correct the line"
    )
  return sequence


def read_fasta(path: pathlib.Path, where_to_get_it: str) -> Iterator[Record]:
  """Yields the records of a FASTA file.

  Args:
    path: the file.
    where_to_get_it: the remedy that an error names if the file is missing, empty or not text.

  Raises:
    UserError: the file is missing, empty, not text, or does not start with `>`.
  """
  return parse(read_lines(path, where_to_get_it), path)


@dataclasses.dataclass(frozen=True)
class HeaderForm:
  r"""Says where a header has its label and its split. By default they are words: `>name label split`.

  Attributes:
    separator: the text between name, label and split. A blank: the label is all that stands between the first word and
      the split, which is the last word. `\t` is a tab.
    pattern: a regular expression with the groups `label` and `split`, or one group, the label. It wins over
      `separator`.
  """

  separator: str | None = None
  pattern: str | None = None

  def check(self, wanted: Sequence[str]) -> None:
    """Raises UserError if headers cannot be read so: an empty separator, or a pattern without the wanted groups."""
    if self.separator == "":
      raise UserError("task.label_separator is empty; set a text, or leave it unset for blanks")
    if self.pattern is not None and wanted:
      _groups(self.pattern, wanted)


BY_WORDS = HeaderForm()


def read_header(header: str, wanted: Sequence[str], form: HeaderForm, place: str) -> dict[str, str]:
  """Returns the wanted values of a header, by name.

  Args:
    header: the header line without `>`.
    wanted: some of `label` and `split`, in this order.
    form: where they are.
    place: `file:line`, for messages.

  Raises:
    UserError: the header does not have this form. A header of more words is an error, too, because the label is then
      often more than one word, or is not there at all.
  """
  if not wanted:
    return {}
  if form.pattern is not None:
    return _matched(header, wanted, form.pattern, place)
  names = ["name", *wanted]
  if form.separator is None:
    fields, what = header.split(), "words"
  elif not form.separator.strip(" "):
    fields, what = header.split(), "words"
    if "label" in wanted and len(fields) > len(names):
      end = len(fields) - len(names) + 2
      fields = [fields[0], " ".join(fields[1:end]), *fields[end:]]
  else:
    separator = form.separator.replace("\\t", "\t")
    fields, what = header.split(separator), f"fields between {separator!r}"
  fields = [field.strip() for field in fields]
  if len(fields) != len(names):
    shown = (form.separator or " ").join(names)
    raise UserError(
      f"{len(fields)} {what} in a header that needs {len(names)}, {place}; write `>{shown}`"
      + ("" if form.separator is not None else _remedy(header, names))
    )
  return dict(zip(wanted, fields[1:], strict=True))


def _remedy(header: str, names: Sequence[str]) -> str:
  """Returns what else may read a header of too few or too many words."""
  for separator, spelling in (("\t", "\\t"), ("|", "|"), (";", ";"), (",", ",")):
    if len(header.split(separator)) == len(names):
      return f", or set --config.task.label_separator='{spelling}', which stands between them"
  if len(header.split()) < len(names):
    return ""
  if "label" not in names:
    return (
      ", or set --config.task.label_pattern to a regular expression with a group (?P<split>...)"
    )
  split = " and before the last" if "split" in names else ""
  return (
    f", or set --config.task.label_separator=' ' if all words after the first{split} are the label, or"
    " --config.task.label_pattern to a regular expression with a group (?P<label>...)"
  )


def _matched(header: str, wanted: Sequence[str], pattern: str, place: str) -> dict[str, str]:
  groups, match = _groups(pattern, wanted), re.search(pattern, header)
  if match is None or any(match[groups[name]] is None for name in wanted):
    raise UserError(
      f"the header {header[:80]!r} does not match task.label_pattern = {pattern!r}, {place}; correct one of the two"
    )
  return {name: match[groups[name]].strip() for name in wanted}


def _groups(pattern: str, wanted: Sequence[str]) -> dict[str, int]:
  """Returns the number of each wanted group of a regular expression."""
  try:
    compiled = re.compile(pattern)
  except re.error as error:
    raise UserError(
      f"task.label_pattern = {pattern!r} is not a regular expression ({error}); correct it"
    ) from None
  groups: dict[str, int] = dict(compiled.groupindex)
  if not groups and compiled.groups == 1:
    groups = {wanted[0]: 1}
  missing = [name for name in wanted if name not in groups]
  if missing:
    raise UserError(f"task.label_pattern = {pattern!r} has no group (?P<{missing[0]}>...); add it")
  return groups
