"""Writes files so that nobody ever sees half of one, even if the process is killed."""

import contextlib
import json
import os
import pathlib
import secrets
from collections.abc import Iterator, Mapping
from typing import IO, Any


@contextlib.contextmanager
def whole_file(path: pathlib.Path, *, text: bool = False) -> Iterator[IO[Any]]:
  """Opens a file for writing that appears at `path` when the block ends.

  It is written to a temporary file beside `path`, which then replaces `path`. If the block fails, `path` stays as it
  was, and the temporary file is deleted. Only a killed process leaves its temporary file behind.

  Args:
    path: the file, in a directory that exists.
    text: True writes text as UTF-8, with the line ends that are given; False writes bytes.
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


def write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
  """Writes an object as a JSON file, in whole or not at all."""
  with whole_file(path, text=True) as file:
    file.write(json.dumps(content, indent=2) + "\n")
