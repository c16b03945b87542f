"""Chooses the samples of each update, as a pure function of (seed, step), so that a run can resume at any step."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Int, Int32

from discipline_jax.streams import EPOCH_ORDER

_WINDOW = 50  # samples are sorted by length within so many batches
_PADDING = 0.1  # largest share of all positions that may be padding
_WORTH = 2500  # a bucket is added only if it saves so many positions in an epoch


class Batches:
  """The batches of a run: each epoch has all samples in random order, and its last batch may be short.

  A batch is padded to the bucket (see `round_up`) of its longest sample. To keep padding short, the samples of 50
  batches are sorted by length and then cut into batches, which come in random order. This order is the same for all
  replicas, so the batches that they compute side by side at one step have similar lengths. The samples of the short
  batch, which count more than others, are random ones.

  Attributes:
    steps_per_epoch: number of updates in which every sample is seen once.
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
    """Prepares the batches; none is made yet.

    Args:
      indices: for each replica, the numbers of its training samples in the data set.
      seeds: seed of each replica.
      lengths: lengths of all samples of the data set, after `round_up`.
      batch_size: number of samples in an update.
      accumulation: number of parts in an update, which are computed one after the other.
      row_multiple: the number of rows in a part is a multiple of this, so that devices share them evenly. Rows without
        a sample hold -1.
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
    """Returns the samples of the update that follows `step` updates, and the length to pad them to.

    Args:
      step: number of updates made.
      replicas: the replicas whose samples are wanted.
    """
    epoch, place = divmod(step, self.steps_per_epoch)
    start = place * self._batch_size
    chosen = self._order(epoch)[replicas, start : start + self._batch_size]
    accumulation, rows = self._parts
    batch = np.full((len(chosen), rows, accumulation), -1, np.int32)
    batch.reshape(len(chosen), -1)[:, : chosen.shape[1]] = chosen
    # The transpose spreads a short batch evenly over the parts.
    return batch.transpose(0, 2, 1), int(self._lengths[chosen].max())

  def _shuffle(self, epoch: int) -> Int[np.ndarray, "replicas samples"]:
    """Returns the samples of an epoch in their order, for each replica."""
    shuffled = np.stack(
      [
        np.random.default_rng([seed, EPOCH_ORDER, epoch]).permutation(row)
        for seed, row in zip(self._seeds, self._indices, strict=True)
      ]
    )
    # This looks at the whole data set, so that the order in one replica does not depend on the samples of the others.
    if np.ptp(self._lengths) == 0:
      return shuffled
    size, window = self._batch_size, self._batch_size * _WINDOW
    rng = np.random.default_rng([EPOCH_ORDER, epoch])  # no seed: the same for all replicas
    for start in range(0, shuffled.shape[1], window):
      part = shuffled[:, start : start + window]
      full = part[:, : part.shape[1] // size * size]  # a view, through which `shuffled` is changed
      by_length = np.argsort(self._lengths[full], axis=1, kind="stable")
      cut = np.take_along_axis(full, by_length, axis=1).reshape(len(full), -1, size)
      full[:] = cut[:, rng.permutation(cut.shape[1])].reshape(full.shape)
    return shuffled


def epoch_steps(num_samples: int, batch_size: int) -> int:
  """Returns the number of updates in which every sample is seen once; the last batch may be short."""
  return math.ceil(num_samples / batch_size)


def round_up(lengths: Int32[np.ndarray, " samples"]) -> Int32[np.ndarray, " samples"]:
  """Rounds each length up to the next bucket. Buckets are the few lengths that batches are padded to.

  There are just enough buckets to keep padding under a tenth of all positions, at the lengths that need least padding.
  A program is compiled for each bucket, so one that would save too little is not added, as in a small data set.
  """
  edges = bucket_lengths(lengths)
  return edges[np.searchsorted(edges, lengths)]


def bucket_lengths(lengths: Int32[np.ndarray, " samples"]) -> Int32[np.ndarray, " buckets"]:
  """Returns the buckets of `round_up`."""
  values, counts = np.unique(lengths, return_counts=True)
  return buckets(values, counts)


def buckets(
  values: Int[np.ndarray, " lengths"], counts: Int[np.ndarray, " lengths"], worth: int = _WORTH
) -> Int32[np.ndarray, " buckets"]:
  """Returns the buckets of `round_up`, which are found by dynamic programming over the lengths that occur.

  Args:
    values: the lengths, in rising order.
    counts: how many samples have each.
    worth: number of positions that a further bucket must save.
  """
  below = np.concatenate([[0], np.cumsum(counts)])
  # cost[i]: positions, padding included, of all samples up to length values[i], if that is the last bucket so far.
  cost = below[1:] * values
  before: list[np.ndarray] = []
  while cost[-1] * (1 - _PADDING) > (values * counts).sum():
    added = (below[None, 1:] - below[1:, None]) * values[None, :] + cost[:, None]
    added = np.where(np.tri(len(values), k=-1, dtype=bool).T, added, np.iinfo(np.int64).max)
    if cost[-1] - added[:, -1].min() < worth:
      break
    before.append(added.argmin(0))
    cost = np.minimum(added.min(0), cost)
  place, edges = len(values) - 1, [len(values) - 1]
  for choices in reversed(before):
    place = choices[place]
    edges.append(place)
  return values[np.unique(edges)].astype(np.int32)
