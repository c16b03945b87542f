"""Puts what runs and baselines predicted side by side: the same seeds, and in each seed the same samples."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discipline_jax.metrics import score
from discipline_jax.programs.baselines import Baseline
from discipline_jax.runs.predictions import FILE
from discipline_jax.verdict import Candidate

_PARTS = ("validation", "test")


@dataclasses.dataclass(frozen=True)
class Predicted:
  """What a model predicted for one part of the data, an array for each seed.

  Attributes:
    units: number of each sample that was scored or, if samples vote, of each group.
    labels, predicted: true and predicted classes or values.
  """

  units: list[np.ndarray]
  labels: list[np.ndarray]
  predicted: list[np.ndarray]

  def scores(self, metric: str) -> dict[str, Any]:
    """Returns the mean, the standard deviation, and the score of each seed."""
    runs = [score(metric, *pair) for pair in zip(self.labels, self.predicted, strict=True)]
    return {"mean": float(np.mean(runs)), "std": float(np.std(runs, ddof=1)), "runs": runs}


# By part: validation and test.
Parts = dict[str, Predicted]


def of_runs(workdirs: Sequence[pathlib.Path]) -> Parts:
  """Reads the predictions of finished fine-tunings, whose replicas follow each other."""
  files = []
  for workdir in workdirs:
    with np.load(workdir / FILE, allow_pickle=False) as arrays:
      files.append(dict(arrays))
  return {
    part: Predicted(
      *(
        [row for one in files for row in one[f"{part}.{name}"]]
        for name in ("units", "labels", "predicted")
      )
    )
    for part in _PARTS
  }


def of_baselines(baselines: Sequence[Baseline]) -> Parts:
  """Returns the predictions of a baseline, given those of each seed."""
  return {
    part: Predicted(
      [one.units[part] for one in baselines],
      [one.labels[part] for one in baselines],
      [one.predicted[part] for one in baselines],
    )
    for part in _PARTS
  }


def candidates(
  networks: Mapping[str, Parts],
  baselines: Mapping[str, Parts],
  collapsed: Sequence[str],
) -> list[Candidate]:
  """Returns all of them with the test samples that they share.

  Runs with other seeds may have parts of another length, because the replicas of a run have parts of the same length;
  samples at the end are then left out.

  Args:
    networks: predictions by init.
    baselines: predictions by name.
    collapsed: inits that predict (nearly) the same for all validation samples with at least one seed.
  """
  tests = {name: parts["test"] for name, parts in (*networks.items(), *baselines.items())}
  length = min(len(row) for one in tests.values() for row in one.units)
  units = np.stack([row[:length] for row in next(iter(tests.values())).units])

  def cut(rows: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([row[:length] for row in rows])

  for name, one in tests.items():
    if not np.array_equal(cut(one.units), units):
      raise AssertionError(f"{name} was scored on other test samples than the first candidate")
  return [
    Candidate(name, name in networks, units, cut(one.labels), cut(one.predicted), name in collapsed)
    for name, one in tests.items()
  ]
