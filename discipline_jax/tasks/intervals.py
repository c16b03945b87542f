"""Says how far the score on some samples can be trusted: its 95% interval, and what one answer for all would score."""

import dataclasses

import numpy as np
from jaxtyping import Num

from discipline_jax.metrics import (
  CLASS_METRICS,
  balanced_accuracy,
  class_scores,
  has_several_labels,
  resampled,
  score,
  scored,
)

_RESAMPLES = 1000
_BLOCK = 1 << 20  # values that are resampled together
# If the largest class has more than this many times the samples of the smallest, accuracy hides errors in the latter.
_UNBALANCED = 2


@dataclasses.dataclass(frozen=True)
class Certainty:
  """Says how far the score of one replica on one part of the data can be trusted. Scores are times 100.

  Attributes:
    samples: how many answers were scored: samples, or groups of samples that vote; not the positions within them.
    interval: the 95% interval of the score, from low to high; None if resampling the samples does not change it.
    constant: the highest score of one and the same answer for all samples. Of accuracy it is the share of the largest
      class, of a correlation 0.
    balanced_accuracy: the accuracy within a class, averaged over the classes; None for values and several labels.
    unbalanced: whether the largest class has over twice the samples of the smallest.
  """

  samples: int
  interval: tuple[float, float] | None
  constant: float
  balanced_accuracy: float | None
  unbalanced: bool


def certainty(
  metric: str,
  labels: Num[np.ndarray, "samples ..."],
  predicted: Num[np.ndarray, "samples ..."],
) -> Certainty:
  """Returns how far a score can be trusted.

  The interval of accuracy is Wilson's. For other metrics, and if a sample has several positions or labels, it is the
  percentile bootstrap over samples, with the same resamples each time: the positions of a sample are drawn together,
  because they are not independent.

  Args:
    metric: a metric that `metrics.score` takes.
    labels: true classes or values; see `metrics.score`.
    predicted: predicted ones.

  References:
    Brown, Cai, DasGupta, Interval estimation for a binomial proportion, 2001; Efron, Tibshirani, An introduction to the
    bootstrap, 1993, chapter 13.
  """
  if has_several_labels(labels, predicted):
    best = _best_constant(metric, labels)
    return Certainty(len(labels), _bootstrap(metric, labels, predicted), best, None, False)
  if metric not in CLASS_METRICS:
    return Certainty(len(labels), _bootstrap(metric, labels, predicted), 0.0, None, False)
  own_labels, own_predicted = scored(labels, predicted)
  classes, counts = np.unique(own_labels, return_counts=True)
  best = 1 if metric == "f1" else classes[counts.argmax()]
  return Certainty(
    samples=len(labels),
    interval=_wilson(labels, predicted)
    if metric == "accuracy" and labels.ndim == 1
    else _bootstrap(metric, labels, predicted),
    constant=score(metric, own_labels, np.full_like(own_labels, best)),
    balanced_accuracy=balanced_accuracy(own_labels, own_predicted),
    unbalanced=bool(counts.max() > _UNBALANCED * counts.min()),
  )


def _best_constant(metric: str, labels: np.ndarray) -> float:
  """Returns the highest score of the same labels for all samples: of all of them, or of the most frequent ones."""
  size, true = len(labels), np.sort(labels.sum(0))[::-1].astype(np.float64)
  if metric == "micro_f1":
    guessed = size * np.arange(1, len(true) + 1)
    return 100 * float((2 * np.cumsum(true) / (guessed + true.sum())).max())
  of_labels = true / size if metric == "average_precision" else 2 * true / (true + size)
  return 100 * float(of_labels.mean())


def _wilson(labels: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
  from scipy.stats import binomtest  # a second, and only the end of a run needs it

  right = int((labels == predicted).sum())
  interval = binomtest(right, len(labels)).proportion_ci(0.95, method="wilson")
  return 100 * float(interval.low), 100 * float(interval.high)


def _bootstrap(
  metric: str, labels: np.ndarray, predicted: np.ndarray
) -> tuple[float, float] | None:
  by_kinds = metric in CLASS_METRICS and labels.ndim == 1
  resample = _resample_classes if by_kinds else _resample_samples
  scores = resample(metric, labels, predicted, np.random.default_rng(0))
  low, high = np.quantile(scores, [0.025, 0.975]).tolist()
  return (low, high) if low < high else None


def _resample_classes(
  metric: str, labels: np.ndarray, predicted: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
  """Returns the score of each resample of the samples, drawn as the number of samples of each kind."""
  size = 1 + int(max(1, labels.max(), predicted.max()))
  kinds, counts = np.unique(labels * size + predicted, return_counts=True)
  drawn = rng.multinomial(len(labels), counts / len(labels), _RESAMPLES)
  return class_scores(metric, kinds, size, drawn)


def _resample_samples(
  metric: str, labels: np.ndarray, predicted: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
  """Returns the score of each resample of the samples; where one of the two is constant, a correlation is 0."""
  size = len(labels)
  scores: list[float] = []
  while len(scores) < _RESAMPLES:
    several = min(_RESAMPLES - len(scores), 1 + _BLOCK // size)
    chosen = rng.integers(size, size=(several, size))
    places = chosen + size * np.arange(several)[:, None]
    counts = np.bincount(places.ravel(), minlength=several * size).reshape(several, size)
    scores += resampled(metric, labels, predicted, counts).tolist()
  return np.array(scores)
