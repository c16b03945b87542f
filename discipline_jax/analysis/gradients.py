"""Compares the gradients of different mini-batches, which are kept in a file and multiplied block by block.

The minimum of the cosines is what gradient confusion (Sankararaman et al. 2020) bounds.
"""

import errno
import os
import pathlib
import shutil
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float64

_BLOCK = 1 << 18  # parameters that are multiplied together


def write(path: pathlib.Path, gradients: Iterable, number: int, size: int) -> None:
  """Writes gradients to a file as they come.

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
  with path.open("wb") as file:  # not mapped: the pages of a mapped file count as memory
    for _, gradient in zip(range(number), gradients, strict=True):
      np.asarray(gradient, np.float32).tofile(file)


def products(path: pathlib.Path, number: int, size: int) -> Float64[np.ndarray, "batches batches"]:
  """Returns the dot products of all pairs of gradients, in float64.

  Args:
    path: the file that `write` wrote, of which a part of each gradient is read at a time.
    number, size: as there.
  """
  total: np.ndarray = np.zeros((number, number))
  with path.open("rb") as file:
    for start in range(0, size, _BLOCK):
      rows = np.empty((number, min(_BLOCK, size - start)))
      for i, row in enumerate(rows):
        file.seek(4 * (i * size + start))
        row[:] = np.fromfile(file, np.float32, len(row))
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
