"""FASTA records with the line they stand on, so that an error can name it."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Alphabet, read_lines, upper


@dataclasses.dataclass(frozen=True)
class Record:
  """One record.

  Attributes:
    header: without `>`.
    lines: of the sequence.
    path, line: of the header.
  """

  header: str
  lines: list[str]
  path: pathlib.Path
  line: int

  def symbols(self, alphabet: Alphabet, kind: str) -> str:
    """The sequence in upper case, without blanks; raises UserError where a character is not `kind`."""
    sequence = upper("".join(self.lines).replace(" ", ""))
    if not sequence:
      raise UserError(
        f"no sequence after {self.header[:40]!r}, {self.path}:{self.line}; every sample needs one"
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
  """Yields the records of a file; raises UserError where it is missing, empty, or does not begin with `>`."""
  return parse(read_lines(path, where_to_get_it), path)


def parse(lines: Iterable[str], path: pathlib.Path) -> Iterator[Record]:
  """Yields the records of the lines of `path`; raises UserError where they do not begin with `>`."""
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
