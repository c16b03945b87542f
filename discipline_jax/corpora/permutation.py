"""Shuffles many numbers without a table: computes which number comes at which place."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Int64, UInt64

_ROUNDS = 8
# Odd numbers of the finaliser of SplitMix64 (Steele et al. 2014, "Fast splittable pseudorandom number generators").
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclasses.dataclass(frozen=True)
class Permutation:
  """A pseudorandom order of the numbers 0 to size - 1.

  A Feistel network (Luby and Rackoff 1988) permutes the numbers below the next power of four. Numbers that are too
  large are permuted again until they are not, which keeps it a permutation (Black and Rogaway 2002, "Ciphers with
  arbitrary finite domains").

  Attributes:
    size: how many numbers there are.
    keys: a key for each round of the network.
  """

  size: int
  keys: tuple[int, ...]

  @classmethod
  def draw(cls, size: int, seed: Sequence[int]) -> "Permutation":
    """Draws an order; the same seed gives the same one."""
    keys = np.random.default_rng(seed).integers(1 << 64, size=_ROUNDS, dtype=np.uint64)
    return cls(size, tuple(keys.tolist()))

  def __call__(self, places: Int[np.ndarray, " places"]) -> Int64[np.ndarray, " places"]:
    """Returns the numbers at these places, each from 0 to size - 1."""
    numbers = self._permute(places.astype(np.uint64))
    while (is_outside := numbers >= self.size).any():
      numbers[is_outside] = self._permute(numbers[is_outside])
    return numbers.astype(np.int64)

  def _permute(self, numbers: UInt64[np.ndarray, " numbers"]) -> UInt64[np.ndarray, " numbers"]:
    """Permutes the numbers of 2 x `bits` bits."""
    bits = np.uint64(max(1, -(-(self.size - 1).bit_length() // 2)))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    left, right = numbers >> bits, numbers & mask
    for key in self.keys:
      left, right = right, left ^ (_mixed(right ^ np.uint64(key)) & mask)
    return (left << bits) | right


def _mixed(numbers: UInt64[np.ndarray, " numbers"]) -> UInt64[np.ndarray, " numbers"]:
  """Returns a number for each number, all of whose bits depend on all bits of it."""
  numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX[0]
  numbers = (numbers ^ (numbers >> np.uint64(27))) * _MIX[1]
  return numbers ^ (numbers >> np.uint64(31))
