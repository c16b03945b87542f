"""Reads the lines of a corpus file, each with the place at which reading can begin again."""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from discipline_jax.files.packed_text import head, kind_of, lines

REMEDY = "set corpus.path to a file or a folder of text, plain or compressed by gzip or xz"
_HEAD = 4096  # bytes
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
  """A line of a text file.

  Attributes:
    number: its number in the file, counted from 1.
    offset: the byte at which it begins; 0 for all lines of a file that can only be read from its start.
    text: the line with its line end.
  """

  number: int
  offset: int
  text: str


@dataclasses.dataclass(frozen=True)
class Files:
  """Files of a corpus, each a unit of its work.

  Attributes:
    paths: the files, which may be compressed.
  """

  paths: tuple[pathlib.Path, ...]

  @property
  def units(self) -> int:
    """The number of files."""
    return len(self.paths)

  def sizes(self) -> list[int]:
    """Returns the bytes of each file."""
    return [path.stat().st_size for path in self.paths]


def read_lines(path: pathlib.Path, offset: int = 0, number: int = 1) -> Iterator[Line]:
  """Yields the lines of a file, also of one whose lines end in carriage returns alone.

  Compressed files, and those with carriage returns alone, can only be read from their start.

  Args:
    path: the file.
    offset, number: those of the first line, as an earlier call gave them; with offset 0, all lines are read.

  Raises:
    UserError: the file cannot be read; the message names the line.
  """
  if offset:
    yield from _read_on(path, offset, number)
    return
  number = 1
  start = head(path, _HEAD, REMEDY)
  is_old = b"\r" in start and b"\n" not in start
  is_packed = path.suffix.lower() != kind_of(path)
  offset = len(_BYTE_ORDER_MARK) if start.startswith(_BYTE_ORDER_MARK) else 0
  for text in lines(path, REMEDY):
    place = 0 if is_old or is_packed or number == 1 else offset
    for one in text.split("\r") if is_old else [text]:
      yield Line(number, place, one)
      number += 1
    offset += len(text) if text.isascii() else len(text.encode())


def _read_on(path: pathlib.Path, offset: int, number: int) -> Iterator[Line]:
  """Yields the lines from this one on, of a file that was read before."""
  with path.open("rb") as file:
    file.seek(offset)
    for line in file:
      yield Line(number, offset, line.decode("utf-8"))
      number += 1
      offset += len(line)
