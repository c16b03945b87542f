"""Lets files grow that are kept in a bucket, where nothing can be appended.

They grow in a temporary folder, and are copied to the bucket every few seconds, and whenever they must not be lost.
"""

import json
import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from discipline_jax.files import buckets
from discipline_jax.files.places import Path

_EVERY = 10.0  # seconds between two copies; storage takes one version of an object a second


def each_record(path: Path) -> Iterator[Any]:
  """Yields what each line of a file says in JSON, and None for a line that a kill cut short.

  Raises:
    OSError: the file cannot be read.
  """
  with path.open("rb") as file:
    for line in file:
      try:
        yield json.loads(line)
      except (ValueError, RecursionError):
        yield None


def read_records(path: Path) -> list[dict]:
  """Returns the JSON objects of a file that grew by a line for each; none if there is no file."""
  return [one for one in each_record(path) if one is not None] if path.exists() else []


class Growing:
  """A folder with files that grow.

  Attributes:
    path: where they are written: the folder itself, or a temporary one in its place.
  """

  def __init__(self, folder: Path):
    self._folder, self._sizes, self._last = folder, dict[pathlib.Path, int](), 0.0
    self._has_failed = False
    self._temporary: tempfile.TemporaryDirectory | None = None
    if isinstance(folder, pathlib.Path):
      self.path = folder
    else:
      self._temporary = tempfile.TemporaryDirectory(prefix="discipline_jax.")
      self.path = pathlib.Path(self._temporary.name)

  def send(self, *, now: bool = False) -> None:
    """Copies what has grown to the bucket: if it is time to, or `now`."""
    if isinstance(self._folder, pathlib.Path):
      return
    if not now and time.monotonic() < self._last + _EVERY:
      return
    self._last, self._has_failed = time.monotonic(), True
    for file in sorted(self.path.rglob("*")):
      size = file.stat().st_size
      if file.is_file() and size != self._sizes.get(file):
        buckets.upload(file, self._folder / file.relative_to(self.path).as_posix())
        self._sizes[file] = size
    self._has_failed = False

  def close(self) -> None:
    """Copies the rest, unless that failed before: what is missing is made again."""
    if not self._has_failed:
      self.send(now=True)
    if self._temporary is not None:
      self._temporary.cleanup()
