"""Reads FASTA records and keeps their line numbers, so that an error can name the line."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

from discipline_jax.errors import UserError
from discipline_jax.tasks.examples import Alphabet
from discipline_jax.tasks.readers.lines import read_lines, upper


@dataclasses.dataclass(frozen=True)
class Record:
  """Holds one FASTA record.

  Attributes:
    header: the header line without `>`.
    lines: the lines of the sequence.
    path: the file.
    line: the line number of the header, counted from 1.
  """

  header: str
  lines: list[str]
  path: pathlib.Path
  line: int

  def symbols(self, alphabet: Alphabet, kind: str) -> str:
    """Returns the sequence in upper case, with its blanks removed.

    Args:
      alphabet: the allowed symbols.
      kind: a name for such a symbol in error messages, for example `an amino acid`.

    Raises:
      UserError: the sequence is empty or has a character outside the alphabet; with file and line.
    """
    sequence = upper("".join(self.lines).replace(" ", ""))
    if not sequence:
      raise UserError(
        f"no sequence follows the header {self.header[:40]!r}, {self.path}:{self.line};"
        " add the sequence, or delete the header"
      )
    wrong = alphabet.unknown(sequence)
    if wrong is not None:
      place = next(i for i, line in enumerate(self.lines, 1) if wrong in upper(line))
      raise UserError(
        f"{wrong!r} is not {kind} ({''.join(alphabet.symbols)}{''.join(alphabet.aliases)}),"
        f" {self.path}:{self.line + place}; correct the line"
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


def parse(lines: Iterable[str], path: pathlib.Path) -> Iterator[Record]:
  """Yields the FASTA records in `lines`.

  Args:
    lines: all lines of the file.
    path: the file, for the records and for messages.

  Raises:
    UserError: the first line with text does not start with `>`.
  """
  record: Record | None = None
  for number, line in enumerate(lines, 1):
    if line.startswith(">"):
      if record is not None:
        yield record
      record = Record(line[1:].strip(), [], path, number)
    elif record is not None:
      record.lines.append(line.strip())
    elif line.strip():
      raise UserError(
        f"expected a line `>name ...`, got {line[:40]!r}, {path}:{number}; give a FASTA file"
      )
  if record is not None:
    yield record
