"""Features kept on disk, under a name made of all that they are made from."""

import dataclasses
import hashlib
import json
import logging as python_logging
import pathlib
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from discipline_jax.tasks.features import Features
from discipline_jax.whole_files import whole_file

# Part of every name: to be raised when the same files are encoded in another way.
_VERSION = 2
# Bytes; smaller files are encoded in the time that it takes to look them up.
_WORTH = 1 << 20


def cached(
  directory: pathlib.Path,
  files: Sequence[pathlib.Path],
  settings: object,
  make: Callable[[], Features],
) -> Features:
  """`make()`, or what it gave when `files` had the same content and `settings` was the same.

  What `make` warned of is kept with the features, and said again.

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
      features, warnings = _load(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
      logging.warning("The features in %s cannot be read (%s) and are made anew", path, error)
    else:
      for warning in warnings:
        logging.warning("When %s was made: %s", path.name[:8], warning)
      return features
  with _Warnings() as warnings:
    features = make()
  try:
    _save(path, features, warnings)
  except OSError as error:  # a cache that cannot be written is no reason to stop
    logging.warning("The features are not kept: %s, %s", error.strerror, path)
  return features


class _Warnings(python_logging.Handler):
  """Keeps the warnings that are logged while it is entered."""

  def __init__(self) -> None:
    super().__init__(python_logging.WARNING)
    self.texts: list[str] = []

  def __enter__(self) -> list[str]:
    logging.get_absl_logger().addHandler(self)
    return self.texts

  def __exit__(self, *_) -> None:
    logging.get_absl_logger().removeHandler(self)

  def emit(self, record: python_logging.LogRecord) -> None:
    self.texts.append(record.getMessage())


def _save(path: pathlib.Path, features: Features, warnings: list[str]) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  arrays: dict[str, Any] = {
    name: value for name, value in vars(features).items() if isinstance(value, np.ndarray)
  }
  with whole_file(path) as file:
    np.savez(file, parts=json.dumps(features.parts), warnings=json.dumps(warnings), **arrays)


def _load(path: pathlib.Path) -> tuple[Features, list[str]]:
  with np.load(path, allow_pickle=False) as arrays:
    features = Features(
      **{
        field.name: arrays.get(field.name)
        for field in dataclasses.fields(Features)
        if field.name != "parts"
      },
      parts=json.loads(str(arrays["parts"])),
    )
    return features, json.loads(str(arrays["warnings"]))
