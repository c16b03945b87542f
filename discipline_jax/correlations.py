"""Scores resamples of samples by correlations; a sample may have many positions, of which there may be millions."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int, Num


def correlations(
  metric: str,
  labels: Num[np.ndarray, " positions"],
  predicted: Num[np.ndarray, " positions"],
  sample_of: Int[np.ndarray, " positions"],
  counts: Float[np.ndarray, "resamples samples"],
) -> Float[np.ndarray, " resamples"]:
  """Returns the correlation in each resample, times 100; 0 where one of the two is constant.

  Args:
    metric: `spearman` or `pearson`.
    labels: true values.
    predicted: predicted ones.
    sample_of: the sample of each position, in rising order; the positions of a sample are drawn together.
    counts: how often each sample is in each resample.
  """
  of_resample = (_of_ranks if metric == "spearman" else _of_values)(labels, predicted, sample_of)
  return 100 * np.array([of_resample(own) for own in counts])


# Returns the correlation in the resample that has each sample so many times.
_OfResample = Callable[[Float[np.ndarray, " samples"]], float]


def _of_ranks(labels: np.ndarray, predicted: np.ndarray, sample_of: np.ndarray) -> _OfResample:
  """Returns Spearman's correlation. The positions are sorted once, and a resample needs only sums along them."""
  # In the order of the labels, so that only what is about the other values is not in order.
  order = np.argsort(labels, kind="stable")
  labels, predicted, sample_of = labels[order], predicted[order], sample_of[order]
  x_ranks, y_ranks = _ranks(labels, sample_of), _ranks(predicted, sample_of)

  def of_resample(own: np.ndarray) -> float:
    return _weighted(x_ranks(own), y_ranks(own), own[sample_of])

  return of_resample


def _ranks(values: np.ndarray, sample_of: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
  """Returns the ranks of values in a resample, less the mean rank; equal values share the mean of their ranks."""
  order = np.argsort(values, kind="stable")
  rising, sample_of_rising = values[order], sample_of[order]
  is_first = np.append(True, rising[1:] != rising[:-1])
  firsts = np.flatnonzero(is_first)
  group_of = np.empty_like(order)
  group_of[order] = np.cumsum(is_first) - 1

  def of_resample(own: np.ndarray) -> np.ndarray:
    sizes = own[sample_of_rising]
    if len(firsts) < len(values):
      sizes = np.add.reduceat(sizes, firsts)
    last = np.cumsum(sizes)
    return (last - sizes / 2 - last[-1] / 2)[group_of]

  return of_resample


def _of_values(labels: np.ndarray, predicted: np.ndarray, sample_of: np.ndarray) -> _OfResample:
  """Returns Pearson's correlation."""
  both = np.stack([labels, predicted]).astype(np.float64)
  # Rounding may hide that all values in a resample are equal, so that is seen from the ends of each sample's values.
  firsts = np.flatnonzero(np.diff(sample_of, prepend=-1))
  low, high = (end.reduceat(both, firsts, axis=1) for end in (np.minimum, np.maximum))

  def of_resample(own: np.ndarray) -> float:
    inside = own[sample_of[firsts]] > 0
    if not inside.any() or (low[:, inside].min(1) == high[:, inside].max(1)).any():
      return 0.0
    drawn = own[sample_of]
    x, y = both - (both @ drawn / drawn.sum())[:, None]
    return _weighted(x, y, drawn)

  return of_resample


def _weighted(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
  """Returns the correlation of values whose weighted means are 0; 0 where one of the two is constant."""
  weighted = weights * x
  scale = float(np.sqrt((weighted * x).sum() * (weights * y * y).sum()))
  return float((weighted * y).sum()) / scale if scale else 0.0
