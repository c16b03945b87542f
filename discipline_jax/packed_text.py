"""Lines of text files, plain or packed, with messages that say where a file is broken."""

import gzip
import lzma
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from discipline_jax.errors import UserError

_OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


def kind_of(path: pathlib.Path) -> str:
  """The suffix of what is packed, or of the plain file, in lower case: `.csv` of `a.CSV.gz`."""
  suffixes = [suffix.lower() for suffix in path.suffixes]
  if suffixes and suffixes[-1] in _OPEN:
    suffixes.pop()
  return suffixes[-1] if suffixes else ""


def lines(path: pathlib.Path, remedy: str) -> Iterator[str]:
  """Yields the lines with their ends; a file that ends in .gz or .xz is unpacked on the way.

  Args:
    path: of the file.
    remedy: what to do where it cannot be opened.

  Raises:
    UserError: it cannot be opened, is not whole, or is not UTF-8, with the line.
  """
  suffix = path.suffix.lower()
  try:
    with _OPEN.get(suffix, open)(path, "rb") as file:
      for number, line in enumerate(file, 1):
        try:
          text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
          raise UserError(
            f"not UTF-8 text ({error.reason}), {path}:{number}; save it as UTF-8, and name a packed file .gz or .xz"
          ) from None
        yield text
  except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
    raise UserError(f"not a whole {suffix} file ({error}), {path}; pack it again") from None
  except OSError as error:
    raise UserError(f"{error.strerror or error}, {path}; {remedy}") from None
