"""Keeps features on disk, under a name that is a digest of everything they are made from."""

import hashlib
import json
import logging as python_logging
import pathlib
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from discipline_jax.files.copies import fetched
from discipline_jax.files.places import Path, make_folder
from discipline_jax.files.whole_files import whole_file
from discipline_jax.tasks.features import Features
from discipline_jax.tasks.windows import Windows

# Part of every name: raise it when the same files are encoded in another way.
_VERSION = 2
# Bytes; encoding smaller files takes no longer than reading features from disk.
_WORTH = 1 << 20
_TARGET = "target."  # before the names of targets in a file
_WINDOWS = "windows."


def cached(
  directory: Path,
  files: Sequence[pathlib.Path],
  settings: object,
  make: Callable[[], Features],
) -> Features:
  """Returns `make()`, or the features that it made before from the same content and settings.

  Warnings that `make` logged are kept with the features, and logged again.

  Args:
    directory: where features are kept.
    files: all files that `make` reads. Nothing is kept if one is missing, or if together they are small.
    settings: everything else that the features depend on, as a value that JSON can hold.
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
      features, warnings = _load(fetched(path))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
      logging.warning(
        "The features in %s cannot be read (%s); encoding the files again", path, error
      )
    else:
      for warning in warnings:
        logging.warning("When the features %s were made: %s", path.name[:8], warning)
      return features
  with _Warnings() as warnings:
    features = make()
  try:
    _save(path, features, warnings)
  except OSError as error:  # a cache that cannot be written is no reason to stop
    logging.warning("The features could not be kept: %s, %s", error.strerror, path)
  return features


class _Warnings(python_logging.Handler):
  """A context manager that collects the warnings logged inside it."""

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


def _save(path: Path, features: Features, warnings: list[str]) -> None:
  make_folder(path.parent)
  windows = {} if features.windows is None else vars(features.windows)
  arrays: dict[str, Any] = {
    **{name: value for name, value in vars(features).items() if isinstance(value, np.ndarray)},
    **{_WINDOWS + name: value for name, value in windows.items()},
    **{_target_name(name): target for name, target in features.targets.items()},
  }
  with whole_file(path) as file:
    np.savez(
      file,
      parts=json.dumps(features.parts),
      warnings=json.dumps(warnings),
      **arrays,
    )


def _load(path: pathlib.Path) -> tuple[Features, list[str]]:
  with np.load(path, allow_pickle=False) as arrays:
    content = dict(arrays)
  parts, warnings = (json.loads(str(content.pop(name))) for name in ("parts", "warnings"))
  if "pieces" in content:  # the name of `groups` in files of version 0.1
    content["groups"] = content.pop("pieces")
  own = {name: content.pop(name) for name in ("symbols", "lengths", "groups", "symbol_ids")}
  segments = content.pop("segments", None)
  own_windows = {
    name.removeprefix(_WINDOWS): content.pop(name)
    for name in list(content)
    if name.startswith(_WINDOWS)
  }
  windows = Windows(**own_windows) if own_windows else None
  targets = {name.removeprefix(_TARGET): target for name, target in content.items()}
  return Features(**own, segments=segments, parts=parts, targets=targets, windows=windows), warnings


def _target_name(name: str) -> str:
  """Returns the name of a target in the file; `labels` has the name that version 0.1 gave it."""
  return name if name == "labels" else _TARGET + name
