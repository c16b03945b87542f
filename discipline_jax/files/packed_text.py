"""Reads the lines of plain and compressed text files; errors name the file and the line."""

import contextlib
import gzip
import lzma
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from discipline_jax.errors import UserError

_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
# How files begin that are not text, and what they are.
MAGIC = {
  b"PK\x03\x04": "a zip file, such as .xlsx and documents of office programs",
  b"\xd0\xcf\x11\xe0": "an Excel file, or another document of an office program",
  b"\xff\xfe": "UTF-16 text",
  b"\xfe\xff": "UTF-16 text",
  b"\x1f\x8b": "a gzip file, whose name must end in .gz",
  b"\xfd7zXZ": "an xz file, whose name must end in .xz",
  **{b"BZh%d1AY&SY" % level: "a bzip2 file" for level in range(1, 10)},
  b"\x28\xb5\x2f\xfd": "a zstd file",
  b"PAR1\x15": "a Parquet file",
  b"%PDF": "a PDF file",
  b"{\\rtf": "an RTF document",
  b"SQLite format 3\0": "an SQLite file",
}


def kind_of(path: pathlib.Path) -> str:
  """Returns a file's suffix in lower case, without a suffix of compression: ".csv" for `a.csv` and `a.CSV.gz`."""
  suffixes = [suffix.lower() for suffix in path.suffixes]
  if suffixes and suffixes[-1] in _OPEN:
    suffixes.pop()
  return suffixes[-1] if suffixes else ""


def lines(path: pathlib.Path, remedy: str) -> Iterator[str]:
  """Yields the lines of a text file with their line ends; decompresses a file that ends in .gz or .xz.

  Args:
    path: the file.
    remedy: what the user can do if the file cannot be opened; the message ends with it.

  Raises:
    UserError: the file cannot be opened, is not complete, or is not UTF-8 (the message gives the line).
  """
  with _readable(path, remedy), _opened(path) as file:
    for number, line in enumerate(file, 1):
      if number == 1:
        _check_magic(line, path)
      try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
      except UnicodeDecodeError as error:
        place = f"{path}:{number + _returns(line[: error.start])}"
        raise UserError(
          f"not UTF-8 text ({error.reason}), {place}; save it as UTF-8, and name a packed file .gz or .xz"
        ) from None
      yield text


def head(path: pathlib.Path, size: int, remedy: str) -> bytes:
  """Returns the first `size` bytes of a file, or all if it has fewer; raises UserError like `lines`."""
  with _readable(path, remedy), _opened(path) as file:
    return file.read(size)


def _opened(path: pathlib.Path) -> Any:
  return _OPEN.get(path.suffix.lower(), open)(path, "rb")


@contextlib.contextmanager
def _readable(path: pathlib.Path, remedy: str) -> Iterator[None]:
  """Turns the errors of opening and reading a file into UserError."""
  try:
    yield
  except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
    raise UserError(
      f"not a whole {path.suffix.lower()} file ({error}), {path}; pack it again"
    ) from None
  except OSError as error:
    # A relative path is one from the working directory, which may not be the one that was meant.
    raise UserError(f"{error.strerror or error}, {path.absolute()}; {remedy}") from None


def _check_magic(start: bytes, path: pathlib.Path) -> None:
  """Raises UserError if a file begins as one of another kind does; such a file may be valid UTF-8 by chance."""
  for magic, kind in MAGIC.items():
    if start.startswith(magic):
      raise UserError(f"{kind}, and not UTF-8 text, {path}:1; save it as UTF-8 text")


def _returns(text: bytes) -> int:
  """Returns the number of carriage returns that end a line alone."""
  return text.count(b"\r") - text.count(b"\r\n")
