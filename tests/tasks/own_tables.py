"""Helpers for tests of custom tasks: write a table of the user's own, and read it."""

import dataclasses

from discipline_jax.tasks.custom import custom
from discipline_jax.tasks.table_format import Format

DEFAULT = Format("sequence", "label", None, "characters", "classification", False)


def read(path, alphabet=None, metric=None, **changes):
  """Reads a custom task; `changes` replace fields of the default format."""
  return custom(str(path), dataclasses.replace(DEFAULT, **changes), alphabet, metric)


def written(folder, content, name="a.csv"):
  """Writes a file and returns its path."""
  path = folder / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return path
