"""Reads the weights that transformers 4 wrote for its Flax and TensorFlow models, under the names of PyTorch."""

import pathlib
import re
from collections.abc import Iterable

import numpy as np
from flax import serialization
from flax.traverse_util import flatten_dict

from discipline_jax.errors import UserError

# The last part of a name: PyTorch's, and whether the array is the transpose.
_LEAVES = {
  "kernel": ("weight", True),
  "embedding": ("weight", False),
  "embeddings": ("weight", False),
  "scale": ("weight", False),
  "gamma": ("weight", False),
  "beta": ("bias", False),
}


def read_flax_file(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns the arrays of a `flax_model.msgpack`; raises UserError if it cannot be read."""
  try:
    flat = flatten_dict(serialization.msgpack_restore(path.read_bytes()))
  except Exception as error:  # the library raises many kinds
    raise _unreadable("Flax", error, path) from None
  if {name[0] for name in flat} == {"params"}:
    flat = {name[1:]: value for name, value in flat.items()}
  arrays = (([*map(str, name)], value) for name, value in flat.items())
  return _renamed((one for one in arrays if isinstance(one[1], np.ndarray)), path)


def read_tensorflow_file(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns the arrays of a `tf_model.h5`; raises UserError if it cannot be read, or if h5py is not installed."""
  try:
    import h5py  # late: an optional package that only these files need
  except ImportError:
    raise UserError(
      f"reading weights of TensorFlow needs the package h5py, {path}; pip install h5py"
    ) from None
  found: list[tuple[list[str], np.ndarray]] = []

  def visit(name: str, value: object) -> None:
    # LAYER/MODEL/bert/encoder/layer_._0/attention/self/query/kernel:0, in which `mlm___cls` stands for `cls`
    if isinstance(value, h5py.Dataset):
      parts = name.removesuffix(":0").replace("_._", "/").split("/")[2:]
      found.append(([re.sub(r"^.*___", "", part) for part in parts], np.asarray(value)))

  try:
    with h5py.File(path) as file:
      file.visititems(visit)
  except Exception as error:  # the library raises many kinds
    raise _unreadable("TensorFlow", error, path) from None
  return _renamed(found, path)


def _unreadable(framework: str, error: Exception, path: pathlib.Path) -> UserError:
  reason = f"{type(error).__name__}: {error}"
  return UserError(
    f"not a readable file of {framework} weights ({reason}), {path}; download it again"
  )


def _renamed(
  named: Iterable[tuple[list[str], np.ndarray]], path: pathlib.Path
) -> dict[str, np.ndarray]:
  """Returns arrays under the names and in the layout of PyTorch; raises UserError if there is none."""
  arrays = {}
  for (*parts, leaf), value in named:
    own, is_transposed = _LEAVES.get(leaf, (leaf, False))
    arrays[".".join([*parts, own])] = value.T if is_transposed else value
  if not arrays:
    raise UserError(f"no weights in the file, {path}; download the checkpoint again")
  return arrays
