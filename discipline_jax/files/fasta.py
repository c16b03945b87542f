"""Reads FASTA records and keeps their line numbers, so that an error can name the line."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator

from discipline_jax.errors import UserError

# The end of a record of GenBank or EMBL, and a `>` that was copied out of a web page.
_FOREIGN = ("//", "&gt;")


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

  @property
  def name(self) -> str:
    """The first word of the header; empty if it has none."""
    return "".join(self.header.split(maxsplit=1)[:1])


def parse(lines: Iterable[str], path: pathlib.Path) -> Iterator[Record]:
  """Yields the FASTA records in `lines`.

  Args:
    lines: all lines of the file.
    path: the file, for the records and for messages.

  Raises:
    UserError: the first line with text does not start with `>`, or a line is of another format.
  """
  record: Record | None = None
  for number, line in enumerate(lines, 1):
    if line.startswith(">"):
      if record is not None:
        yield record
      record = Record(line[1:].strip(), [], path, number)
    elif line.startswith(";"):  # a comment, as the format's first program wrote them
      if record is not None:
        record.lines.append("")
    elif line.startswith(_FOREIGN):
      raise UserError(
        f"{line.strip()[:40]!r} is not a line of FASTA, {path}:{number}; take `//` out, and write `>` for `&gt;`"
      )
    elif record is not None:
      record.lines.append(line.strip())
    elif line.strip():
      raise UserError(
        f"expected a line `>name ...`, got {line[:40]!r}, {path}:{number}; give a FASTA file"
      )
  if record is not None:
    yield record
