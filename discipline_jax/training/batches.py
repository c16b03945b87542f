"""Which samples each update sees: a pure function of (seed, step), so that a run can go on anywhere."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Int32

_ORDER = 1  # a stream of its own: [seed, 0] would be that of the split, and of the token map
_WINDOW = 50  # batches, within which samples of like length are brought together
_PADDING = 0.1  # the share of positions that may be padding
_WORTH = 2500  # positions of an epoch that one more length to compile must save


class Batches:
  """Epochs in seeded random order; the last batch of an epoch may be short, and no sample is left out.

  Where lengths differ, the samples of every 50 batches in a row are sorted by length before they are cut into
  batches, and these come in random order: a batch is padded to its longest sample's bucket, not to the longest of
  all. At any step all replicas have a batch of the same rank in length, so that side by side they pay little more.

  Attributes:
    steps_per_epoch: updates that see every sample once.
  """

  def __init__(
    self,
    indices: Int32[np.ndarray, "replicas samples"],
    seeds: list[int],
    lengths: Int32[np.ndarray, " all_samples"],
    *,
    batch_size: int,
    accumulation: int,
    row_multiple: int,
  ):
    """Args:
    indices: each replica's training samples.
    seeds: each replica's.
    lengths: of all samples of the data set, after `round_up`.
    batch_size: samples an update.
    accumulation: parts an update is cut into.
    row_multiple: the rows of a part are a multiple of it (places without a sample hold -1), so that
      devices share them evenly.
    """
    self._indices = indices
    self._seeds = tuple(seeds)
    self._lengths = lengths
    self._batch_size = batch_size
    rows = math.ceil(math.ceil(batch_size / accumulation) / row_multiple) * row_multiple
    self._parts = (accumulation, rows)
    self.steps_per_epoch = math.ceil(indices.shape[1] / batch_size)
    self._order = lru_cache(maxsize=1)(self._shuffle)

  def at(
    self, step: int, replicas: slice = slice(None)
  ) -> tuple[Int32[np.ndarray, "replicas accumulation rows"], int]:
    """The batch of the update that follows `step` updates, and the length it needs."""
    epoch, place = divmod(step, self.steps_per_epoch)
    start = place * self._batch_size
    chosen = self._order(epoch)[replicas, start : start + self._batch_size]
    accumulation, rows = self._parts
    batch = np.full((len(chosen), rows, accumulation), -1, np.int32)
    batch.reshape(len(chosen), -1)[:, : chosen.shape[1]] = chosen
    # so that a short batch is shared out evenly among the parts
    return batch.transpose(0, 2, 1), int(self._lengths[chosen].max())

  def _shuffle(self, epoch: int) -> np.ndarray:
    shuffled = np.stack(
      [
        np.random.default_rng([seed, _ORDER, epoch]).permutation(row)
        for seed, row in zip(self._seeds, self._indices, strict=True)
      ]
    )
    if (
      np.ptp(self._lengths) == 0
    ):  # of all samples, for a replica must not depend on its neighbours
      return shuffled
    size, window = self._batch_size, self._batch_size * _WINDOW
    rng = np.random.default_rng([_ORDER, epoch])  # the same for every replica
    for start in range(0, shuffled.shape[1], window):
      part = shuffled[:, start : start + window]  # a view
      by_length = np.argsort(self._lengths[part], axis=1, kind="stable")
      part[:] = np.take_along_axis(part, by_length, axis=1)
      full = part[:, : part.shape[1] // size * size].reshape(len(part), -1, size)
      part[:, : full[0].size] = full[:, rng.permutation(full.shape[1])].reshape(len(part), -1)
    return shuffled


def round_up(lengths: Int32[np.ndarray, " samples"]) -> Int32[np.ndarray, " samples"]:
  """Each length's bucket: the smallest of a few lengths that holds it.

  They are the fewest with which less than a tenth of all positions is padding, placed as well as they can be. Each is
  a program of its own to compile, so a small data set has fewer.
  """
  edges = bucket_lengths(lengths)
  return edges[np.searchsorted(edges, lengths)]


def bucket_lengths(lengths: Int32[np.ndarray, " samples"]) -> Int32[np.ndarray, " buckets"]:
  """The lengths that `round_up` rounds to, by dynamic programming over the values that occur."""
  values, counts = np.unique(lengths, return_counts=True)
  below = np.concatenate([[0], np.cumsum(counts)])
  # cost[i]: positions for all samples up to values[i] with the buckets so far, the last of them at values[i].
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
