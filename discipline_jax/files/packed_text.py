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


def kind_of(path: pathlib.Path) -> str:
  """Returns a file's suffix in lower case, without that of its compression: ".csv" for `a.csv` and `a.CSV.gz`."""
  suffixes = [suffix.lower() for suffix in path.suffixes]
  if suffixes and suffixes[-1] in _OPEN:
    suffixes.pop()
  return suffixes[-1] if suffixes else ""


def lines(path: pathlib.Path, remedy: str) -> Iterator[str]:
  """Yields the lines of a text file with their line ends; decompresses a file that ends in .gz or .xz.

  Args:
    path: of the file.
    remedy: what the user can do if the file cannot be opened; the message ends with it.

  Raises:
    UserError: the file cannot be opened, is not complete, or is not UTF-8 (the message gives the line).
  """
  with _readable(path, remedy), _opened(path) as file:
    for number, line in enumerate(file, 1):
      try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
      except UnicodeDecodeError as error:
        raise UserError(
          f"not UTF-8 text ({error.reason}), {path}:{number}; save it as UTF-8, and name a packed file .gz or .xz"
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
    raise UserError(f"{error.strerror or error}, {path}; {remedy}") from None
