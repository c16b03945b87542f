"""Opens the weights of a checkpoint in any of Hugging Face's formats; reads each tensor only when it is needed."""

import json
import pathlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ml_dtypes
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

_ALIGNMENT = 64  # bytes; XLA uses an array without copying it if its memory is aligned to this
_DTYPES = {
  "F64": np.float64,
  "F32": np.float32,
  "F16": np.float16,
  "BF16": ml_dtypes.bfloat16,
  "I64": np.int64,
  "I32": np.int32,
  "I16": np.int16,
  "I8": np.int8,
  "U8": np.uint8,
  "BOOL": np.bool_,
}

Weights = Mapping[str, Callable[[], np.ndarray]]


def open_weights(directory: pathlib.Path) -> Weights:
  """Returns, for the name of each tensor in the checkpoint, a function that reads it.

  Args:
    directory: a checkpoint in Hugging Face's format.

  Raises:
    UserError: there are no weights, or a file is missing or broken.
  """
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
    raise UserError(f"not an index of shards, {path}; download it again") from None
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
    with safe_open(path, framework="numpy"):  # the library checks names, sizes and offsets
      pass
    with path.open("rb") as file:
      size = int.from_bytes(file.read(8), "little")
      header = json.loads(file.read(size))
  except (SafetensorError, OSError) as error:
    raise UserError(f"not a whole safetensors file ({error}), {path}; download it again") from None
  header.pop("__metadata__", None)
  return {name: partial(_read, path, 8 + size, entry) for name, entry in header.items()}


def _read(path: pathlib.Path, start: int, entry: Mapping[str, Any]) -> np.ndarray:
  """Reads one tensor to aligned memory that JAX can use without a copy.

  The usual way, a mapped file with a copy for numpy and one for JAX, needs three times the memory.

  Args:
    path: a safetensors file.
    start: offset of the data in the file, in bytes.
    entry: dtype, shape and offsets of the tensor, from the file's header.
  """
  if entry["dtype"] not in _DTYPES:
    raise UserError(f"dtype {entry['dtype']} is not supported, {path}; save the weights as float32")
  begin, end = entry["data_offsets"]
  buffer = np.empty(end - begin + _ALIGNMENT, np.uint8)
  first = -buffer.ctypes.data % _ALIGNMENT
  buffer = buffer[first : first + end - begin]
  with path.open("rb") as file:
    file.seek(start + begin)
    if file.readinto(buffer.data) != len(buffer):
      raise OSError(f"{path.name} is incomplete")
  return buffer.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])


def read_tensor(weights: Weights, name: str, directory: pathlib.Path) -> np.ndarray:
  """Reads a tensor of `open_weights`; raises UserError if that fails."""
  try:
    return weights[name]()
  except OSError as error:
    raise UserError(
      f"{name} cannot be read ({error}), {directory}; download the checkpoint again"
    ) from None
