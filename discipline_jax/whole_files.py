"""Files that are at their place once they are whole, and never in part."""

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator
from typing import IO, Any


@contextlib.contextmanager
def whole_file(path: pathlib.Path, *, text: bool = False) -> Iterator[IO[Any]]:
  """A file to write that takes its place, and that of what is there, when the block ends; nothing does if it fails.

  Args:
    path: its place, in a directory that exists.
    text: UTF-8 with lines that end as they are written; else bytes.
  """
  part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
  try:
    with part.open("x", encoding="utf-8", newline="") if text else part.open("xb") as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    part.replace(path)
  finally:
    part.unlink(missing_ok=True)
