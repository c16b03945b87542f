"""Which samples each update sees: a pure function of (seed, step), so that a run can go on anywhere."""

import math
from functools import lru_cache

import numpy as np
from jaxtyping import Int32

_ORDER = 1  # a stream of its own: [seed, 0] would be that of the split, and of the token map


class Batches:
  """Epochs in seeded random order; the last batch of an epoch may be short, and no sample is left out.

  Attributes:
    steps_per_epoch: updates that see every sample once.
  """

  def __init__(
    self,
    indices: Int32[np.ndarray, "replicas samples"],
    seeds: list[int],
    *,
    batch_size: int,
    accumulation: int,
    row_multiple: int,
  ):
    """Args:
    indices: each replica's training samples.
    seeds: each replica's.
    batch_size: samples an update.
    accumulation: parts an update is cut into.
    row_multiple: the rows of a part are a multiple of it (places without a sample hold -1), so that
      devices share them evenly.
    """
    self._indices = indices
    self._seeds = tuple(seeds)
    self._batch_size = batch_size
    rows = math.ceil(math.ceil(batch_size / accumulation) / row_multiple) * row_multiple
    self._parts = (accumulation, rows)
    self.steps_per_epoch = math.ceil(indices.shape[1] / batch_size)
    self._order = lru_cache(maxsize=1)(self._shuffle)

  def at(self, step: int) -> Int32[np.ndarray, "replicas accumulation rows"]:
    """The batch of the update that follows `step` updates."""
    epoch, place = divmod(step, self.steps_per_epoch)
    chosen = self._order(epoch)[:, place * self._batch_size : (place + 1) * self._batch_size]
    accumulation, rows = self._parts
    batch = np.full((len(chosen), rows, accumulation), -1, np.int32)
    batch.reshape(len(chosen), -1)[:, : chosen.shape[1]] = chosen
    return batch.transpose(0, 2, 1)  # so that a short batch is shared out evenly among the parts

  def _shuffle(self, epoch: int) -> np.ndarray:
    return np.stack(
      [
        np.random.default_rng([seed, _ORDER, epoch]).permutation(row)
        for seed, row in zip(self._seeds, self._indices, strict=True)
      ]
    )
