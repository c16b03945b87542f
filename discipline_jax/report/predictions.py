"""Reads the predictions of a run, and lays those of two runs side by side."""

import dataclasses
import pathlib
import zipfile

import numpy as np
from jaxtyping import Int, Num

from discipline_jax import label_metrics, metrics
from discipline_jax.report.tree import Run

_TOLERANCE = 0.05  # points; predictions are kept in single precision
_MOST_CLASSES = 1 << 15


@dataclasses.dataclass(frozen=True)
class Scored:
  """Holds what a run was scored on in one part of the data.

  Attributes:
    seeds: of the replicas.
    units: numbers of the samples or, where samples vote, of their groups.
    labels: true classes or values; with a further axis over positions or over several labels, see `metrics.score`.
    predicted: predicted ones.
  """

  seeds: Int[np.ndarray, " replicas"]
  units: Int[np.ndarray, "replicas samples"]
  labels: Num[np.ndarray, "replicas samples ..."]
  predicted: Num[np.ndarray, "replicas samples ..."]


def read_predictions(run: Run, part: str) -> Scored | None:
  """Returns what a run was scored on; None if it kept no predictions (one by an older version).

  Raises:
    ValueError: the file cannot be read, or is not of this run; the message names it.
  """
  path = run.path / "predictions.npz"
  if not path.exists():
    return None
  try:
    with np.load(path, allow_pickle=False) as file:
      scored = Scored(
        file["seeds"], *(file[f"{part}.{name}"] for name in ("units", "labels", "predicted"))
      )
  except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile):
    raise ValueError(f"no predictions on {part} can be read, {path}") from None
  _check(scored, run, part, path)
  return scored


def _check(scored: Scored, run: Run, part: str, path: pathlib.Path) -> None:
  """Raises ValueError if the predictions do not have the scores of the run's result."""
  metric, expected = run.result["metric"], run.result[part]["runs"]
  labels, predicted = scored.labels, scored.predicted
  is_valid = (
    scored.seeds.shape == (len(expected),)
    and scored.units.ndim == 2
    and scored.units.shape[1] > 0
    and labels.shape == predicted.shape
    and labels.shape[:2] == (len(expected), scored.units.shape[1])
    and labels.ndim in (2, 3)
    and all(np.issubdtype(one.dtype, np.integer) for one in (scored.seeds, scored.units))
    and all(np.issubdtype(one.dtype, np.number) for one in (labels, predicted))
    and _are_of(metric, labels, predicted)
  )
  if is_valid:
    once = np.ones((1, scored.units.shape[1]), int)
    is_valid = all(
      abs(metrics.resampled(metric, labels, predicted, once)[0] - score) < _TOLERANCE
      for labels, predicted, score in zip(scored.labels, scored.predicted, expected, strict=True)
    )
  if not is_valid:
    raise ValueError(f"the predictions on {part} are not those of the result beside them, {path}")


def _are_of(metric: str, labels: np.ndarray, predicted: np.ndarray) -> bool:
  """Returns whether a metric can score these labels and predictions; one of positions may lack those not scored."""
  if labels.ndim == 3 and metrics.has_several_labels(labels[0], predicted[0]):
    are_binary = bool(np.isin(labels, (0, 1)).all() and np.isfinite(predicted).all())
    return are_binary and metric in label_metrics.LABEL_METRICS
  if labels.ndim == 3:
    chosen = metrics.is_scored(labels)
    if not chosen.any(axis=(1, 2)).all():
      return False
    labels, predicted = labels[chosen], predicted[chosen]
  if metric in metrics.CLASS_METRICS:
    return _are_classes(labels) and _are_classes(predicted)
  are_finite = bool(np.isfinite(labels).all() and np.isfinite(predicted).all())
  return are_finite and metric in metrics.VALUE_METRICS


def _are_classes(values: np.ndarray) -> bool:
  return bool(
    np.issubdtype(values.dtype, np.integer) and values.min() >= 0 and values.max() < _MOST_CLASSES
  )


def paired(ours: Scored, theirs: Scored) -> tuple[Scored, np.ndarray] | None:
  """Returns the predictions of the seeds that two runs share, and the other run's, for the same samples.

  Returns None if they share no seed, or were scored on other samples, or with other labels.
  """
  seeds = [seed for seed in ours.seeds.tolist() if seed in theirs.seeds.tolist()]
  if not seeds or ours.units.shape[1] != theirs.units.shape[1]:
    return None
  own, other = (_sorted(one, seeds) for one in (ours, theirs))
  if (
    own.labels.ndim == other.labels.ndim == 3
  ):  # each is as wide as the longest sequence of its run
    width = max(own.labels.shape[2], other.labels.shape[2])
    own, other = (_widened(one, width) for one in (own, other))
  if not (np.array_equal(own.units, other.units) and _same(own.labels, other.labels)):
    return None
  return own, other.predicted


def _widened(scored: Scored, width: int) -> Scored:
  """Returns the predictions with further positions that are not scored."""
  wide = [
    np.pad(
      one,
      ((0, 0), (0, 0), (0, width - one.shape[2])),
      constant_values=np.nan if np.issubdtype(one.dtype, np.floating) else -1,
    )
    for one in (scored.labels, scored.predicted)
  ]
  return dataclasses.replace(scored, labels=wide[0], predicted=wide[1])


def _same(labels: np.ndarray, others: np.ndarray) -> bool:
  has_nan = np.issubdtype(labels.dtype, np.floating) and np.issubdtype(others.dtype, np.floating)
  return np.array_equal(labels, others, equal_nan=has_nan)


def _sorted(scored: Scored, seeds: list[int]) -> Scored:
  """Returns the rows of some seeds, in their order, with samples in the order of their numbers."""
  rows = [scored.seeds.tolist().index(seed) for seed in seeds]
  order = np.argsort(scored.units[rows], axis=1, kind="stable")
  units, labels, predicted = (
    np.take_along_axis(one[rows], order.reshape(*order.shape, *[1] * (one.ndim - 2)), axis=1)
    for one in (scored.units, scored.labels, scored.predicted)
  )
  return Scored(np.array(seeds, np.int64), units, labels, predicted)
