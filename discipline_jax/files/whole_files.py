"""Writes files and folders so that nobody ever sees half of one, even if the process is killed."""

import contextlib
import errno
import json
import os
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from discipline_jax.files import buckets
from discipline_jax.files.places import Path


@contextlib.contextmanager
def whole_file(path: Path, *, text: bool = False) -> Iterator[IO[Any]]:
  """Opens a file for writing that appears at `path` when the block ends.

  It is written to a temporary file beside `path`, which then replaces `path`. If the block fails, `path` stays as it
  was, and the temporary file is deleted. Only a killed process leaves its temporary file behind. For a bucket, the
  temporary file is on the local disk.

  Args:
    path: the file, in a directory that exists.
    text: True writes text as UTF-8, with the line ends that are given; False writes bytes.
  """
  if not isinstance(path, pathlib.Path):
    with tempfile.TemporaryDirectory(prefix="discipline_jax.") as folder:
      file_here = pathlib.Path(folder) / "file"
      with whole_file(file_here, text=text) as file:
        yield file
      buckets.upload(file_here, path)
    return
  part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
  try:
    with part.open("x", encoding="utf-8", newline="") if text else part.open("xb") as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    part.replace(path)
  finally:
    part.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(path: Path, last: str) -> Iterator[pathlib.Path]:
  """Gives the path of a local folder to make, which appears at `path` when the block ends.

  In a bucket its files appear one after the other.

  Args:
    path: the folder; nothing is there.
    last: the name of the file that appears last, without which the folder does not count.
  """
  if not isinstance(path, pathlib.Path):
    with tempfile.TemporaryDirectory(prefix="discipline_jax.") as folder:
      part = pathlib.Path(folder) / path.name
      yield part
      for file in sorted(part.iterdir(), key=lambda one: one.name == last):
        buckets.upload(file, path / file.name)
    return
  part = path.with_name(f".{path.name}.part")
  shutil.rmtree(part, ignore_errors=True)
  try:
    yield part
    part.replace(path)
  finally:
    shutil.rmtree(part, ignore_errors=True)


def read_json(path: Path) -> Any:
  """Returns the content of a JSON file, also if it is replaced meanwhile.

  Raises:
    FileNotFoundError: there is no such file.
    ValueError: it is not UTF-8, or not JSON.
  """
  if isinstance(path, pathlib.Path):
    return json.loads(path.read_text(encoding="utf-8"))
  found = buckets.read(path)  # `read_text` asks for the size first, and would cut a longer text
  if found is None:
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
  return json.loads(found[0])


def write_json(path: Path, content: Mapping[str, Any]) -> None:
  """Writes an object as a JSON file, in whole or not at all."""
  with whole_file(path, text=True) as file:
    file.write(json.dumps(content, indent=2) + "\n")
