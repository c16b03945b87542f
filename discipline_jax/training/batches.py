"""Chooses the samples of each update, as a pure function of (seed, step), so that a run can resume at any step."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Int, Int32

from discipline_jax.streams import EPOCH_ORDER

_WINDOW = 50  # batches within which samples of similar length are brought together
_PADDING = 0.1  # share of the positions that may be padding
_WORTH = 2500  # positions of an epoch that compiling one more length must save


class Batches:
  """Epochs in seeded random order; the last batch of an epoch may be short, and no sample is left out.

  If lengths differ, the samples of 50 consecutive batches are sorted by length before they are cut into batches, and
  these batches come in random order. So a batch is padded to the bucket of its longest sample, not to the longest
  sample of all. At any step the batches of all replicas have the same rank in length, so that replicas that are
  computed side by side need little more padding.

  Attributes:
    steps_per_epoch: updates that see every sample once.
  """

  def __init__(
    self,
    indices: Int[np.ndarray, "replicas samples"],
    seeds: list[int],
    lengths: Int32[np.ndarray, " all_samples"],
    *,
    batch_size: int,
    accumulation: int,
    row_multiple: int,
  ):
    """Args:
    indices: training samples of each replica.
    seeds: seed of each replica.
    lengths: lengths of all samples of the data set, after `round_up`.
    batch_size: samples of an update.
    accumulation: parts that an update is cut into.
    row_multiple: the rows of a part are filled up to a multiple of it with -1, which is no sample, so that devices
      share them evenly.
    """
    self._indices = indices
    self._seeds = tuple(seeds)
    self._lengths = lengths
    self._batch_size = batch_size
    rows = math.ceil(math.ceil(batch_size / accumulation) / row_multiple) * row_multiple
    self._parts = (accumulation, rows)
    self.steps_per_epoch = epoch_steps(indices.shape[1], batch_size)
    self._order = lru_cache(maxsize=1)(self._shuffle)

  def at(
    self, step: int, replicas: slice = slice(None)
  ) -> tuple[Int32[np.ndarray, "replicas accumulation rows"], int]:
    """Returns the batch of the update that follows `step` updates, and the length that it needs."""
    epoch, place = divmod(step, self.steps_per_epoch)
    start = place * self._batch_size
    chosen = self._order(epoch)[replicas, start : start + self._batch_size]
    accumulation, rows = self._parts
    batch = np.full((len(chosen), rows, accumulation), -1, np.int32)
    batch.reshape(len(chosen), -1)[:, : chosen.shape[1]] = chosen
    # Transposed, so that a short batch is spread evenly over the parts.
    return batch.transpose(0, 2, 1), int(self._lengths[chosen].max())

  def _shuffle(self, epoch: int) -> np.ndarray:
    shuffled = np.stack(
      [
        np.random.default_rng([seed, EPOCH_ORDER, epoch]).permutation(row)
        for seed, row in zip(self._seeds, self._indices, strict=True)
      ]
    )
    # The lengths of all samples decide, because a replica must not depend on the others.
    if np.ptp(self._lengths) == 0:
      return shuffled
    size, window = self._batch_size, self._batch_size * _WINDOW
    rng = np.random.default_rng([EPOCH_ORDER, epoch])  # the same for every replica
    for start in range(0, shuffled.shape[1], window):
      part = shuffled[:, start : start + window]  # a view
      by_length = np.argsort(self._lengths[part], axis=1, kind="stable")
      part[:] = np.take_along_axis(part, by_length, axis=1)
      full = part[:, : part.shape[1] // size * size].reshape(len(part), -1, size)
      part[:, : full[0].size] = full[:, rng.permutation(full.shape[1])].reshape(len(part), -1)
    return shuffled


def epoch_steps(num_samples: int, batch_size: int) -> int:
  """Returns the number of updates that see every sample once; the last batch may be short."""
  return math.ceil(num_samples / batch_size)


def round_up(lengths: Int32[np.ndarray, " samples"]) -> Int32[np.ndarray, " samples"]:
  """Rounds each length up to its bucket, the smallest of a few lengths that holds it.

  There are as few buckets as keep padding under a tenth of all positions, and they are placed as well as possible. Each
  is one more program to compile, so a small data set has fewer.
  """
  edges = bucket_lengths(lengths)
  return edges[np.searchsorted(edges, lengths)]


def bucket_lengths(lengths: Int32[np.ndarray, " samples"]) -> Int32[np.ndarray, " buckets"]:
  """Returns the lengths that `round_up` rounds to, by dynamic programming over the lengths that occur."""
  values, counts = np.unique(lengths, return_counts=True)
  below = np.concatenate([[0], np.cumsum(counts)])
  # cost[i]: positions of all samples up to values[i], with the buckets so far, of which the last is at values[i].
  cost = below[1:] * values
  before: list[np.ndarray] = []
  while cost[-1] * (1 - _PADDING) > (values * counts).sum():
    added = (below[None, 1:] - below[1:, None]) * values[None, :] + cost[:, None]
    added = np.where(np.tri(len(values), k=-1, dtype=bool).T, added, np.iinfo(np.int64).max)
    if cost[-1] - added[:, -1].min() < _WORTH:
      break
    before.append(added.argmin(0))
    cost = np.minimum(added.min(0), cost)
  place, edges = len(values) - 1, [len(values) - 1]
  for choices in reversed(before):
    place = choices[place]
    edges.append(place)
  return values[np.unique(edges)].astype(np.int32)
