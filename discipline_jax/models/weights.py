"""Opens the weights of a checkpoint in any of Hugging Face's formats; each tensor is read when it is asked for."""

import json
import pathlib
import struct
from collections.abc import Callable, Mapping

import numpy as np
from safetensors import SafetensorError, safe_open

from discipline_jax.errors import UserError
from discipline_jax.models.torch_file import read_torch_file

_FILES = (
  "model.safetensors",
  "model.safetensors.index.json",
  "pytorch_model.bin",
  "pytorch_model.bin.index.json",
)

Weights = Mapping[str, Callable[[], np.ndarray]]


def open_weights(directory: pathlib.Path) -> Weights:
  """Maps each tensor's name in the checkpoint to a function that reads it."""
  present = [name for name in _FILES if (directory / name).is_file()]
  if not present:
    raise UserError(
      f"no {' or '.join(_FILES[::2])} in {directory}; download the model's weights there"
    )
  path = directory / present[0]
  if not path.name.endswith(".index.json"):
    return _open_file(path)
  try:
    shards = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    files = sorted(set(shards.values()))
  except (ValueError, KeyError, TypeError, AttributeError):
    raise UserError(f"not an index of weights, {path}; download it again") from None
  weights: dict[str, Callable[[], np.ndarray]] = {}
  for file in files:
    if pathlib.PurePath(file).name != file or not (directory / file).is_file():
      raise UserError(f"the shard {file} is missing, {path}; download it into the same directory")
    weights.update(_open_file(directory / file))
  absent = sorted(set(shards) - set(weights))
  if absent:
    raise UserError(f"{absent[0]} is not in {shards[absent[0]]}, {path}; download the shards again")
  return weights


def _open_file(path: pathlib.Path) -> Weights:
  if path.suffix == ".bin":
    return {name: (lambda array=array: array) for name, array in read_torch_file(path).items()}
  try:
    file = safe_open(path, framework="numpy")
    return {name: (lambda name=name: file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118 (not a dict)
  except (SafetensorError, OSError, struct.error) as error:
    raise UserError(f"not a whole safetensors file ({error}), {path}; download it again") from None


def read_tensor(weights: Weights, name: str, directory: pathlib.Path) -> np.ndarray:
  try:
    return weights[name]()
  except (SafetensorError, OSError) as error:
    raise UserError(
      f"{name} cannot be read ({error}), {directory}; download the checkpoint again"
    ) from None
