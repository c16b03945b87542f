"""Features kept on disk, under a name made of all that they are made from."""

import dataclasses
import hashlib
import json
import pathlib
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from discipline_jax.tasks.features import Features
from discipline_jax.whole_files import whole_file

# Part of every name: to be raised when the same files are encoded in another way.
_VERSION = 1
# Bytes; smaller files are encoded in the time that it takes to look them up.
_WORTH = 1 << 20


def cached(
  directory: pathlib.Path,
  files: Sequence[pathlib.Path],
  settings: object,
  make: Callable[[], Features],
) -> Features:
  """`make()`, or what it gave when `files` had the same content and `settings` was the same.

  Args:
    directory: where features are kept.
    files: all that `make` reads; where one is missing, or they are small, nothing is kept.
    settings: all else that it depends on, as what JSON can write.
    make: encodes the files.
  """
  if not files or not all(file.is_file() for file in files):
    return make()
  if sum(file.stat().st_size for file in files) < _WORTH:
    return make()
  digest = hashlib.sha256(json.dumps([_VERSION, settings]).encode())
  for file in files:
    digest.update(hashlib.sha256(file.read_bytes()).digest())
  path = directory / f"{digest.hexdigest()}.npz"
  if path.exists():
    try:
      return _load(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
      logging.warning("The features in %s cannot be read (%s) and are made anew", path, error)
  features = make()
  try:
    _save(path, features)
  except OSError as error:  # a cache that cannot be written is no reason to stop
    logging.warning("The features are not kept: %s, %s", error.strerror, path)
  return features


def _save(path: pathlib.Path, features: Features) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  arrays: dict[str, Any] = {
    name: value for name, value in vars(features).items() if isinstance(value, np.ndarray)
  }
  with whole_file(path) as file:
    np.savez(file, parts=json.dumps(features.parts), **arrays)


def _load(path: pathlib.Path) -> Features:
  with np.load(path, allow_pickle=False) as arrays:
    return Features(
      **{
        field.name: arrays.get(field.name)
        for field in dataclasses.fields(Features)
        if field.name != "parts"
      },
      parts=json.loads(str(arrays["parts"])),
    )
