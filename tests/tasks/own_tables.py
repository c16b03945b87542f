"""Tables for the tests of one's own data."""

import dataclasses

from discipline_jax.tasks.custom import Format, custom

DEFAULT = Format("sequence", "label", None, "characters", "classification", False)


def read(path, alphabet=None, metric=None, **changes):
  return custom(str(path), dataclasses.replace(DEFAULT, **changes), alphabet, metric)


def written(folder, content, name="a.csv"):
  path = folder / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return path
