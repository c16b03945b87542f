"""Cuts a corpus of text into ranges of documents, and reads the documents of one range.

Each worker first lists the sizes of the documents in some units of the corpus (files, or groups of records), on disk,
because they may be many. From these lists alone it is clear where each block begins.
"""

import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from discipline_jax.corpora.sequences import SequenceFiles
from discipline_jax.corpora.text import Document, TextFiles
from discipline_jax.corpora.tfds_records import TfdsRecords
from discipline_jax.errors import UserError
from discipline_jax.files.whole_files import whole_file

CHARACTERS = 1 << 24  # of a range, at least
_GROUP = 1 << 26  # bytes of small files that one worker lists together
_ROWS = 1 << 16  # documents of a list that are held in memory
# Columns of a list: the unit, offset and line of a document, the documents before it with the same offset, its letters.
_COLUMNS = 5

Texts = TextFiles | SequenceFiles | TfdsRecords


class Range(NamedTuple):
  """Documents that follow one another in a corpus.

  Attributes:
    unit: the number of the unit in which they begin.
    offset, line: where reading begins in it: see `Document.offset`.
    skip: the number of documents there that come before the range.
    documents: their number. They may go on in the next units.
  """

  unit: int
  offset: int
  line: int
  skip: int
  documents: int


def groups(texts: Texts) -> list[tuple[int, int]]:
  """Returns the first and the last + 1 of the units of each list: small files share one."""
  found, first, size = [], 0, 0
  for unit, own in enumerate(texts.sizes()):
    if unit > first and size + own > _GROUP:
      found.append((first, unit))
      first, size = unit, 0
    size += own
  return [*found, (first, texts.units)]


def list_documents(texts: Texts, units: range, path: pathlib.Path) -> int:
  """Writes the list of the documents in some units, and returns their number.

  Raises:
    UserError: a unit cannot be read.
  """
  total = 0
  rows: list[tuple[int, int, int, int, int]] = []
  with whole_file(path) as file:
    for unit in units:
      last, skip = -1, 0
      for document in texts.read(unit):
        skip = skip + 1 if document.offset == last else 0
        last = document.offset
        line = int(document.place.rpartition(":")[2])
        rows.append((unit, last, line, skip, sum(map(len, document.paragraphs))))
        if len(rows) == _ROWS:
          file.write(np.array(rows, np.int64).tobytes())
          total += len(rows)
          rows.clear()
    file.write(np.array(rows, np.int64).tobytes())
  return total + len(rows)


def read_list(path: pathlib.Path) -> Iterator[Int64[np.ndarray, "_ columns"]]:
  """Yields parts of what `list_documents` wrote."""
  with path.open("rb") as file:
    while part := file.read(8 * _COLUMNS * _ROWS):
      yield np.frombuffer(part, np.int64).reshape(-1, _COLUMNS)


def cut(lists: Iterable[Int64[np.ndarray, "_ columns"]], least: int) -> list[Range]:
  """Cuts a corpus into ranges of at least 2**24 letters; the last range takes what is left.

  Args:
    lists: parts of the lists of all documents, in order.
    least: the least number of documents in a range.

  Returns:
    At least one range, which has no document if the corpus has none.
  """
  starts: list[list[int]] = []  # of the ranges
  counts: list[int] = []
  letters = documents = 0  # since the last cut
  for part in lists:
    ends = np.cumsum(part[:, -1])
    first = before = 0  # rows, and their letters, that belong to earlier ranges
    while first < len(part):
      if documents == 0:
        starts.append(part[first, :-1].tolist())
      enough = int(np.searchsorted(ends, CHARACTERS - letters + before))
      last = max(enough, first + least - documents - 1)  # the last row of the range
      if last >= len(part):
        documents += len(part) - first
        letters += int(ends[-1]) - before
        break
      counts.append(documents + last + 1 - first)
      first, before = last + 1, int(ends[last])
      letters = documents = 0
  if documents and counts:
    starts.pop()
    counts[-1] += documents
  elif not counts:
    counts, starts = [documents], starts or [[0, 0, 1, 0]]
  found = zip(starts, counts, strict=True)
  return [Range(*start, documents=count) for start, count in found]


class RangeReader:
  """Reads ranges. It goes on where the last one ended, if that is nearer than the place where reading can begin."""

  def __init__(self, texts: Texts):
    self._texts = texts
    self._documents: Iterator[Document] = iter(())
    self._start, self._position = (
      (-1, 0),
      0,
    )  # where reading began, and how many documents were read since

  def read(self, wanted: Range) -> list[Document]:
    """Returns the documents of a range.

    Raises:
      UserError: there are fewer documents than when the range was made.
    """
    if self._start != (wanted.unit, wanted.offset) or self._position > wanted.skip:
      self._begin(wanted.unit, wanted.offset, wanted.line)
    self._take(wanted.skip - self._position)
    found = self._take(wanted.documents)
    while len(found) < wanted.documents:
      unit = self._start[0] + 1
      if unit >= self._texts.units:
        raise UserError(
          f"the corpus has become shorter, after {found[-1].place if found else 'its start'}; prepare it again"
        )
      self._begin(unit, 0, 1)
      found += self._take(wanted.documents - len(found))
    return found

  def _begin(self, unit: int, offset: int, line: int) -> None:
    self._documents = self._texts.read(unit, offset, line)
    self._start, self._position = (unit, offset), 0

  def _take(self, count: int) -> list[Document]:
    """Returns the next documents of the unit, fewer if it ends."""
    found = list(itertools.islice(self._documents, count))
    self._position += len(found)
    return found
