"""Compares the gradients of different mini-batches, which are kept in a file and multiplied block by block.

The minimum of the cosines is what gradient confusion (Sankararaman et al. 2020) bounds.
"""

import errno
import os
import pathlib
import shutil
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float32, Float64

_BLOCK = 1 << 20  # parameters that are multiplied together


def write(
  path: pathlib.Path, gradients: Iterable, number: int, size: int
) -> Float32[np.memmap, "batches params"]:
  """Writes gradients to a file as they come, and returns them as an array that stays on disk.

  Args:
    path: the file, which is replaced.
    gradients: one for each mini-batch, Float32 [params].
    number: how many there are.
    size: parameters of each.

  Raises:
    OSError: the disk has not enough space; nothing is written.
  """
  needed = 4 * number * size
  if shutil.disk_usage(path.parent).free < needed:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{path} ({needed / 1e9:.2g} GB)")
  file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(number, size))
  for row, gradient in zip(file, gradients, strict=True):
    row[:] = gradient
  file.flush()
  return file


def products(
  gradients: Float32[np.ndarray, "batches params"],
) -> Float64[np.ndarray, "batches batches"]:
  """Returns the dot products of all pairs of gradients, in float64.

  Args:
    gradients: an array, which may be on disk: a few megabytes of each row are read at a time.
  """
  total: np.ndarray = np.zeros((len(gradients), len(gradients)))
  block = max(1, _BLOCK // max(1, len(gradients) // 100))
  for start in range(0, gradients.shape[1], block):
    rows = np.asarray(gradients[:, start : start + block], np.float64)
    total += rows @ rows.T
  return total


def compare_pairs(
  products: Float64[np.ndarray, "batches batches"],
) -> dict[str, Float64[np.ndarray, " pairs"]]:
  """Returns the cosine, the dot product and the L2 distance of all pairs of different mini-batches.

  A cosine is NaN if one of the gradients is 0.

  Args:
    products: of all pairs, as `products` returns them.
  """
  first, second = np.triu_indices(len(products), 1)
  squares = np.diag(products)
  dots = products[first, second]
  lengths = np.sqrt(squares[first] * squares[second])
  cosines = np.divide(dots, lengths, out=np.full(len(dots), np.nan), where=lengths > 0)
  distances = np.sqrt(np.maximum(0, squares[first] + squares[second] - 2 * dots))
  return {"cosine": cosines, "dot": dots, "distance": distances}
