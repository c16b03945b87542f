"""Reads the predictions of a run, and lays those of two runs side by side."""

import dataclasses
import pathlib
import zipfile

import numpy as np
from jaxtyping import Int, Num

from discipline_jax import metrics
from discipline_jax.report.tree import Run

_TOLERANCE = 0.05  # points; predictions are kept in single precision
_MOST_CLASSES = 1 << 15


@dataclasses.dataclass(frozen=True)
class Scored:
  """Holds what a run was scored on in one part of the data.

  Attributes:
    seeds: of the replicas.
    units: numbers of the samples or, where samples vote, of their groups.
    labels: true classes or values.
    predicted: predicted ones.
  """

  seeds: Int[np.ndarray, " replicas"]
  units: Int[np.ndarray, "replicas samples"]
  labels: Num[np.ndarray, "replicas samples"]
  predicted: Num[np.ndarray, "replicas samples"]


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
  arrays = (scored.units, scored.labels, scored.predicted)
  whole = (scored.seeds, scored.units)
  is_of_classes = metric in metrics.CLASS_METRICS
  is_valid = (
    (is_of_classes or metric in metrics.VALUE_METRICS)
    and scored.seeds.shape == (len(expected),)
    and all(one.ndim == 2 and one.shape == (len(expected), scored.units.shape[1]) for one in arrays)
    and scored.units.shape[1] > 0
    and all(np.issubdtype(one.dtype, np.integer) for one in whole)
    and all(np.issubdtype(one.dtype, np.number) and np.isfinite(one).all() for one in arrays)
    and (not is_of_classes or all(_are_classes(one) for one in arrays[1:]))
  )
  if is_valid:
    once = np.ones((1, scored.units.shape[1]), int)
    is_valid = all(
      abs(metrics.resampled(metric, labels, predicted, once)[0] - score) < _TOLERANCE
      for labels, predicted, score in zip(scored.labels, scored.predicted, expected, strict=True)
    )
  if not is_valid:
    raise ValueError(f"the predictions on {part} are not those of the result beside them, {path}")


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
  if not (np.array_equal(own.units, other.units) and np.array_equal(own.labels, other.labels)):
    return None
  return own, other.predicted


def _sorted(scored: Scored, seeds: list[int]) -> Scored:
  """Returns the rows of some seeds, in their order, with samples in the order of their numbers."""
  rows = [scored.seeds.tolist().index(seed) for seed in seeds]
  order = np.argsort(scored.units[rows], axis=1, kind="stable")
  units, labels, predicted = (
    np.take_along_axis(one[rows], order, axis=1)
    for one in (scored.units, scored.labels, scored.predicted)
  )
  return Scored(np.array(seeds, np.int64), units, labels, predicted)
