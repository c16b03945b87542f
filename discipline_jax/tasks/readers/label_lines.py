"""Reads FASTA in which the labels of a sequence, one for each position, stand behind it.

There are two forms: two records a sample (the sequence, then its labels), and three lines a sample (`>name`, the
sequence, the labels), as structure predictors write them.
"""

import collections
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
# What the name of a sequence has, and that of its labels has not; and the other way round.
_Roles = tuple[str, str]
_ONE_NAME: _Roles = ("", "")


def read_label_lines(
  records: Sequence[Record], skip_invalid: bool
) -> Iterator[Labelled | UserError]:
  """Yields the samples of a file; one that cannot be read is yielded as its error.

  The form is that of three lines if half of the records, or more, have two lines with one label for each symbol. If
  half of them are also in pairs, by their names or their lengths, the letters decide: those of sequences are not those
  of labels. Else it is that of pairs.

  Args:
    records: all records of the file.
    skip_invalid: whether samples that cannot be read are to be left out. If the names do not say which records belong
      together, nothing but them tells that a record is missing, and that all behind it are divided wrongly.

  Raises:
    UserError: both forms fit, and the letters do not decide; or the form is that of pairs, which the names do not say,
      and `skip_invalid` is set.
  """
  roles = _roles(records)
  pairs = _pairs(records, roles)
  if _has_three_lines(records) and not (_has_pairs(pairs) and _are_pairs(records, pairs)):
    yield from map(_of_three_lines, records)
    return
  are_named = roles is not None and not _have_alike(records, roles)
  if skip_invalid and records and not are_named:
    first = records[0]
    raise UserError(
      "task.skip_invalid = True, but the names of the records do not say which of them are a sequence and its labels,"
      f" so that a missing one would shift all others, {first.path}:{first.line}; give the two records of each sample"
      " one name, which its neighbours do not have, or set --config.task.skip_invalid=False"
    )
  for one, other in pairs:
    if other is None and are_named:
      yield UserError(
        f"no record with the labels of {one.name[:40]!r} follows it, {one.path}:{one.line}; write a"
        " record with the sequence, then one with its labels, or three lines for each sample: >name, sequence, labels"
      )
    elif other is None:
      yield UserError(
        f"{len(records)} records, but a sequence and its labels are two, {one.path}:{one.line}; add the record that"
        " is missing (if the two of each sample have one name, the next message names its line)"
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
    if alone is not None and alone.name == record.name:
      paired, alone = paired + 2, None
    else:
      alone = record
  if first is not None and (2 * fitting >= number or 2 * paired >= number):
    raise UserError(
      f"the records may be sequences with the labels of their positions, {first.path}:{first.line}; leave the labels"
      " out, write each sequence on one line, and give each a name of its own"
    )


def _roles(records: Sequence[Record]) -> _Roles | None:
  """Returns what the names of a sequence and of its labels differ in, by which they are told from their neighbours.

  That is nothing if neighbours have one name, else what most pairs differ in, as `1ABC:A:sequence` and `1ABC:A:secstr`
  do; None if there is no such thing.
  """
  found = collections.Counter(_apart(one, other) for one, other in itertools.pairwise(records))
  if found[_ONE_NAME] and found[_ONE_NAME] == max(found.values()):
    return _ONE_NAME
  # Names that are numbered differ, too, but each time in other digits.
  (roles, number), (_, next_number) = [*found.most_common(2), (_ONE_NAME, 0), (_ONE_NAME, 0)][:2]
  return roles if 4 * number > len(records) and number > next_number else None


def _apart(one: Record, other: Record) -> _Roles:
  """Returns what is left of two names without their common beginning and end."""
  first, second = one.name, other.name
  start = _alike(first, second)
  first, second = first[start:], second[start:]
  end = _alike(first[::-1], second[::-1])
  return first[: len(first) - end], second[: len(second) - end]


def _alike(one: str, other: str) -> int:
  """Returns with how many equal letters two texts begin."""
  return sum(itertools.takewhile(bool, map(str.__eq__, one, other)))


def _have_alike(records: Sequence[Record], roles: _Roles) -> bool:
  """Returns whether a pair has a neighbour of its name, so that it may also be divided between the two."""
  apart = [_apart(one, other) for one, other in itertools.pairwise(records)]
  return any(pair == (roles, roles[::-1]) for pair in itertools.pairwise(apart))


def _pairs(records: Sequence[Record], roles: _Roles | None) -> list[_Pair]:
  """Returns each record with the one behind it if their names have these roles; if there are none, two records each."""
  pairs: list[_Pair] = []
  place = 0
  while place < len(records):
    one, other = records[place], next(iter(records[place + 1 : place + 2]), None)
    if roles is not None and other is not None and _apart(one, other) != roles:
      other = None
    pairs.append((one, other))
    place += 1 if other is None else 2
  return pairs


def _has_pairs(pairs: Sequence[_Pair]) -> bool:
  """Returns whether half of the records, or more, are in pairs with one name, or with as many symbols as labels."""
  both = [(one, other) for one, other in pairs if other is not None]
  fitting = sum(
    one.name == other.name or bool(_counts(_lines(one)) & _counts(_lines(other)))
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
