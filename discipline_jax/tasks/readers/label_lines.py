"""Reads FASTA in which the labels of a sequence, one for each position, stand behind it.

There are two forms: two records a sample (the sequence, then its labels), and three lines a sample (`>name`, the
sequence, the labels), as structure predictors write them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record

# A folded RNA with its energy, as RNAfold writes it: `((..)) (-1.30)`.
_ENERGY = re.compile(r"([.()\[\]{}<>,|]+)\s+\(\s*[-+]?\d+\.?\d*\s*\)")

# A record with the name, the sequence, and the text of the labels.
Labelled = tuple[Record, str, str]


def read_label_lines(records: Sequence[Record]) -> Iterator[Labelled | UserError]:
  """Yields the samples of a file; one that cannot be read is yielded as its error.

  The form is that of pairs if each second record has the name of the one before; else that of three lines if half of
  the records, or more, have two lines with one label for each symbol; else that of pairs.
  """
  paired = _pairs_of_a_name(records)
  if 2 * sum(paired) < len(records) and _has_three_lines(records):
    yield from map(_of_three_lines, records)
    return
  have_names = 4 * sum(paired) > len(records)
  for place in range(0, len(records), 2):
    pair = records[place : place + 2]
    if len(pair) == 1 or (have_names and not paired[place // 2]):
      yield UserError(
        f"no record with the labels of {_name(pair[0])[:40]!r} follows it, {pair[0].path}:{pair[0].line}; write a"
        " record with the sequence, then one with its labels, or three lines for each sample: >name, sequence, labels"
      )
    else:
      sequence, labels = ("\n".join(_lines(one)) for one in pair)
      yield pair[0], sequence, labels


def refuse_label_lines(records: Iterable[Record]) -> None:
  """Reads all records of a file that is to have sequences alone; it holds no more than two of them.

  Raises:
    UserError: it seems to have labels, too, which would be read as sequences.
  """
  first = last = None
  number = paired = fitting = 0
  for record in records:
    first, number, fitting = first or record, number + 1, fitting + _fits(record)
    paired += number % 2 == 0 and last is not None and _name(last) == _name(record)
    last = record
  if first is not None and (2 * fitting >= number or 2 * paired == number):
    raise UserError(
      f"the records may be sequences with the labels of their positions, {first.path}:{first.line}; leave the labels"
      " out, and write each sequence on one line"
    )


def _pairs_of_a_name(records: Sequence[Record]) -> list[bool]:
  """Returns, for each two records, whether they have the same name."""
  pairs = zip(records[::2], records[1::2], strict=False)
  return [_name(one) == _name(other) for one, other in pairs]


def _has_three_lines(records: Sequence[Record]) -> bool:
  """Returns whether half of the records, or more, have two lines with as many symbols as labels."""
  return 2 * sum(map(_fits, records)) >= len(records)


def _of_three_lines(record: Record) -> Labelled | UserError:
  lines = _lines(record)
  if len(lines) != 2:
    return UserError(
      f"{len(lines)} line(s) after the header {record.header[:40]!r}, not a sequence and its labels,"
      f" {record.path}:{record.line}; write three lines for each sample: >name, sequence, labels"
    )
  sequence, labels = lines
  return record, sequence, labels


def _fits(record: Record) -> bool:
  lines = _lines(record)
  if len(lines) != 2:
    return False
  words = [len(line.split()) for line in lines]
  letters = [len(line) for line in lines]
  counts = [{letters[i], *([words[i]] if words[i] > 1 else [])} for i in range(2)]
  return bool(counts[0] & counts[1])


def _lines(record: Record) -> list[str]:
  """Returns the lines that have text; those of labels without the energy of a fold."""
  lines = [line for line in record.lines if line]
  energy = _ENERGY.fullmatch(lines[-1]) if lines else None
  return lines if energy is None else [*lines[:-1], energy[1]]


def _name(record: Record) -> str:
  return "".join(record.header.split(maxsplit=1)[:1])
