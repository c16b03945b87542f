"""Opens the weights of a checkpoint in any of Hugging Face's formats; reads each tensor only when it is needed."""

import json
import pathlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from discipline_jax.errors import UserError
from discipline_jax.models.families import FAMILIES
from discipline_jax.models.other_frameworks import read_flax_file, read_tensorflow_file
from discipline_jax.models.torch_file import read_torch_file

_FILES = (
  "model.safetensors",
  "model.safetensors.index.json",
  "pytorch_model.bin",
  "pytorch_model.bin.index.json",
  "flax_model.msgpack",
  "tf_model.h5",
)
# Parts of names that wrappers of a network add: DataParallel, torch.compile, FSDP and activation checkpointing.
_WRAPPERS = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
_EMBEDDINGS = "embeddings.word_embeddings.weight"
_FAMILY = re.compile(rf"(?:(?<=\.)|^)(?:{'|'.join(FAMILIES)})\.$")

_POINTER = b"version https://git-lfs"
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

  The names lack what wrappers of the network have put before or into them.

  Args:
    directory: a checkpoint in Hugging Face's format.

  Raises:
    UserError: there are no weights, a file is missing or broken, or two tensors have the same name without wrappers.
  """
  present = [name for name in _FILES if (directory / name).is_file()]
  if not present:
    raise UserError(_why_none(directory))
  path = directory / present[0]
  weights = _open_shards(path) if path.name.endswith(".index.json") else _open_file(path)
  return _unwrapped(weights, path)


def weight_files(directory: pathlib.Path) -> list[pathlib.Path]:
  """Returns the files that `open_weights` reads, as far as they are there; it reports what is wrong with them."""
  present = [directory / name for name in _FILES if (directory / name).is_file()][:1]
  if not present or not present[0].name.endswith(".index.json"):
    return present
  try:
    shards = set(json.loads(present[0].read_text(encoding="utf-8"))["weight_map"].values())
    return present + [directory / shard for shard in shards if (directory / shard).is_file()]
  except (OSError, ValueError, KeyError, TypeError, AttributeError):
    return present


def _why_none(directory: pathlib.Path) -> str:
  """Returns the message for a directory without weights that can be read."""
  files = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
  renamed = [
    name for name in files if name.endswith((".pt", ".pth", ".ckpt", ".bin", ".safetensors"))
  ]
  wanted = " or ".join(_FILES[:4:2])
  shards = [name for name in files if re.match(r"(flax_model|tf_model)-.*-of-", name)]
  of_tensorflow = [name for name in files if name.endswith(".ckpt.index")]
  if shards or of_tensorflow:
    return f"no {wanted}, but {(shards or of_tensorflow)[0]}, which is not read, {directory}; convert it to one of them"
  if renamed:
    new = _FILES[0] if renamed[0].endswith(".safetensors") else _FILES[2]
    return (
      f"no {wanted}, but {renamed[0]}, {directory}; if it holds the weights, rename it to {new}"
    )
  return f"no {wanted} in {directory}; download the model's weights there"


def _open_shards(path: pathlib.Path) -> Weights:
  """Opens the files that an index names."""
  try:
    shards = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    files = sorted(set(shards.values()))
  except (ValueError, KeyError, TypeError, AttributeError):
    raise UserError(f"not an index of shards, {path}; download it again") from None
  weights: dict[str, Callable[[], np.ndarray]] = {}
  for file in files:
    if pathlib.PurePath(file).name != file or not (path.parent / file).is_file():
      raise UserError(f"the shard {file} is missing, {path}; download it into the same directory")
    weights.update(_open_file(path.parent / file))
  absent = sorted(set(shards) - set(weights))
  if absent:
    raise UserError(f"{absent[0]} is not in {shards[absent[0]]}, {path}; download the shards again")
  return weights


def _unwrapped(weights: Weights, path: pathlib.Path) -> Weights:
  """Renames tensors: drops the parts that wrappers add, and the name of a larger model's part before the encoder's.

  For example, a model of Lightning has `model.bert.embeddings...`, and a network that holds a BERT as its `backbone`
  has `backbone.embeddings...`.
  """
  names = {
    name: ".".join(part for part in name.split(".") if part not in _WRAPPERS) for name in weights
  }
  outer = {
    _FAMILY.sub("", name.removesuffix(_EMBEDDINGS))
    for name in names.values()
    if name == _EMBEDDINGS or name.endswith(f".{_EMBEDDINGS}")
  }
  if len(outer) > 1 and "" not in outer:
    raise UserError(
      f"several encoders, {' and '.join(sorted(outer))[:80]}, {path}; save the state dict of the one that you mean"
    )
  prefix = next(iter(outer)) if len(outer) == 1 else ""
  found: dict[str, str] = {}
  for name, plain in names.items():
    plain = plain.removeprefix(prefix)
    if plain in found:
      raise UserError(
        f"both {found[plain]} and {name} are {plain}, {path}; save the state dict of one model"
      )
    found[plain] = name
  return {plain: weights[name] for plain, name in found.items()}


def _of_arrays(arrays: Mapping[str, np.ndarray]) -> Weights:
  return {name: (lambda array=array: array) for name, array in arrays.items()}


def _open_file(path: pathlib.Path) -> Weights:
  if path.suffix == ".bin":
    return _of_arrays(read_torch_file(path))
  if path.suffix == ".msgpack":
    return _of_arrays(read_flax_file(path))
  if path.suffix == ".h5":
    return _of_arrays(read_tensorflow_file(path))
  with path.open("rb") as file:
    if file.read(len(_POINTER)) == _POINTER:
      raise UserError(
        f"a pointer file of Git LFS, not the weights, {path}; run `git lfs pull` in its repository"
      )
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
