"""Measures the spread of what enters each LayerNorm: its standard deviation over all features of all tokens."""

import numpy as np
from jaxtyping import Bool, Float


class Spread:
  """Sums over the values that enter the LayerNorms of a network.

  Attributes:
    count: number of values of each LayerNorm.
    total, squares: sum of the values, and of their squares, of each LayerNorm.
  """

  def __init__(self, number: int):
    self.count = 0
    self.total = np.zeros(number)
    self.squares = np.zeros(number)

  def add(
    self,
    inputs: list[Float[np.ndarray, "batch length hidden"]],
    mask: Bool[np.ndarray, "batch length"],
  ) -> None:
    """Adds a batch.

    Args:
      inputs: of each LayerNorm.
      mask: False for padding, which does not count.
    """
    for i, values in enumerate(inputs):
      real = values[mask].astype(np.float64)
      self.total[i] += real.sum()
      self.squares[i] += np.square(real).sum()
    self.count += int(mask.sum()) * inputs[0].shape[-1]

  @property
  def deviations(self) -> Float[np.ndarray, " norms"]:
    """The standard deviation of each LayerNorm's input."""
    means = self.total / self.count
    return np.sqrt(np.maximum(0, self.squares / self.count - np.square(means)))
