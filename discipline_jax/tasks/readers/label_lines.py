"""Reads FASTA in which the labels of a sequence, one for each position, stand behind it.

There are two forms: two records a sample (the sequence, then its labels), and three lines a sample (`>name`, the
sequence, the labels), as structure predictors write them.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record

# A folded RNA with its energy, as RNAfold writes it: `((..)) (-1.30)`.
_ENERGY = re.compile(r"([.()\[\]{}<>,|]+)\s+\(\s*[-+]?\d+\.?\d*\s*\)")

_CLEARLY_FEWER = 0.8  # times the larger number

# A record with the name, the sequence, and the text of the labels.
Labelled = tuple[Record, str, str]
# A record that is read as a sequence, and the one with its labels; None if there is none.
_Pair = tuple[Record, Record | None]


def read_label_lines(records: Sequence[Record]) -> Iterator[Labelled | UserError]:
  """Yields the samples of a file; one that cannot be read is yielded as its error.

  The form is that of three lines if half of the records, or more, have two lines with one label for each symbol. If
  half of them are also in pairs, by their names or their lengths, the letters decide: those of sequences are not those
  of labels. Else it is that of pairs.

  Raises:
    UserError: both forms fit, and the letters do not decide.
  """
  pairs = _pairs(records)
  if _has_three_lines(records) and not (_has_pairs(pairs) and _are_pairs(records, pairs)):
    yield from map(_of_three_lines, records)
    return
  for one, other in pairs:
    if other is None:
      yield UserError(
        f"no record with the labels of {_name(one)[:40]!r} follows it, {one.path}:{one.line}; write a"
        " record with the sequence, then one with its labels, or three lines for each sample: >name, sequence, labels"
      )
    else:
      yield one, "\n".join(_lines(one)), "\n".join(_lines(other))


def refuse_label_lines(records: Iterable[Record]) -> None:
  """Reads all records of a file that is to have sequences alone; it holds no more than two of them.

  Raises:
    UserError: it seems to have labels, too, which would be read as sequences.
  """
  first = alone = None
  number = paired = fitting = 0
  for record in records:
    first, number, fitting = first or record, number + 1, fitting + _fits(record)
    if alone is not None and _name(alone) == _name(record):
      paired, alone = paired + 2, None
    else:
      alone = record
  if first is not None and (2 * fitting >= number or 2 * paired >= number):
    raise UserError(
      f"the records may be sequences with the labels of their positions, {first.path}:{first.line}; leave the labels"
      " out, write each sequence on one line, and give each a name of its own"
    )


def _pairs(records: Sequence[Record]) -> list[_Pair]:
  """Returns each record with the one behind it if they have one name; if no neighbours have, two records each."""
  named = any(_name(one) == _name(other) for one, other in itertools.pairwise(records))
  pairs: list[_Pair] = []
  place = 0
  while place < len(records):
    one, other = records[place], next(iter(records[place + 1 : place + 2]), None)
    if named and other is not None and _name(other) != _name(one):
      other = None
    pairs.append((one, other))
    place += 1 if other is None else 2
  return pairs


def _has_pairs(pairs: Sequence[_Pair]) -> bool:
  """Returns whether half of the records, or more, are in pairs with one name, or with as many symbols as labels."""
  both = [(one, other) for one, other in pairs if other is not None]
  fitting = sum(
    _name(one) == _name(other) or bool(_counts(_lines(one)) & _counts(_lines(other)))
    for one, other in both
  )
  return 2 * 2 * fitting >= len(pairs) + len(both)


def _are_pairs(records: Sequence[Record], pairs: Sequence[_Pair]) -> bool:
  """Returns whether records that fit both forms are pairs; raises UserError if nothing says it.

  Divided wrongly, both sides have the letters of sequences and those of labels, so together they have clearly more.
  """
  lines = [_lines(record) for record in records]
  in_lines = _letters(one[:1] for one in lines) + _letters(one[1:] for one in lines)
  both = [(_lines(one), _lines(other)) for one, other in pairs if other is not None]
  in_pairs = _letters(one for one, _ in both) + _letters(other for _, other in both)
  if min(in_lines, in_pairs) > _CLEARLY_FEWER * max(in_lines, in_pairs):
    record = next(record for record in records if _fits(record))
    raise UserError(
      f"the two lines below {record.header[:40]!r} may be a sequence and its labels, or one sequence, {record.path}:"
      f"{record.line}; write two records of one name for each sample, >name, sequence, >name, labels, with the sequence"
      " on one line, and the labels on one line"
    )
  return in_pairs < in_lines


def _letters(texts: Iterable[Sequence[str]]) -> int:
  """Returns how many different letters occur in texts, which have several lines each."""
  return len({letter for lines in texts for line in lines for letter in {*line}})


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
  return len(lines) == 2 and bool(_counts(lines[:1]) & _counts(lines[1:]))


def _counts(lines: Sequence[str]) -> set[int]:
  """Returns how many symbols lines may have: as many as letters, and as words if there are several on a line."""
  words = [len(line.split()) for line in lines]
  return {sum(map(len, lines)), *([sum(words)] if max(words, default=0) > 1 else [])}


def _lines(record: Record) -> list[str]:
  """Returns the lines that have text; those of labels without the energy of a fold."""
  lines = [line for line in record.lines if line]
  energy = _ENERGY.fullmatch(lines[-1]) if lines else None
  return lines if energy is None else [*lines[:-1], energy[1]]


def _name(record: Record) -> str:
  return "".join(record.header.split(maxsplit=1)[:1])
