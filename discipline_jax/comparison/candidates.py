"""Puts what runs and baselines predicted side by side: the same seeds, and for each seed the same samples."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discipline_jax.comparison.verdict import Candidate
from discipline_jax.files.copies import fetched
from discipline_jax.files.places import Path
from discipline_jax.metrics import score
from discipline_jax.programs.baselines import Baseline
from discipline_jax.runs.predictions import FILE, stacked

_PARTS = ("validation", "test")


@dataclasses.dataclass(frozen=True)
class Predicted:
  """Holds what a model predicted for one part of the data, an array for each seed.

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


def of_run(workdir: Path) -> Parts:
  """Reads the predictions of a finished fine-tuning."""
  with np.load(fetched(workdir / FILE), allow_pickle=False) as arrays:
    return {
      part: Predicted(
        *(list(arrays[f"{part}.{name}"]) for name in ("units", "labels", "predicted"))
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
  networks: Mapping[str, Parts], baselines: Mapping[str, Parts], collapsed: Sequence[str]
) -> list[Candidate]:
  """Returns all of them with their predictions for test.

  Args:
    networks: predictions by init.
    baselines: predictions by name.
    collapsed: inits that predict (nearly) the same for all validation samples with at least one seed.
  """
  tests = {name: parts["test"] for name, parts in (*networks.items(), *baselines.items())}
  found = [
    Candidate(
      name,
      name in networks,
      np.stack(one.units),
      stacked(one.labels),
      stacked(one.predicted),
      name in collapsed,
    )
    for name, one in tests.items()
  ]
  for one in found:
    if not np.array_equal(one.units, found[0].units) or one.labels.shape != found[0].labels.shape:
      raise AssertionError(f"{one.name} was scored on other test samples than {found[0].name}")
  return found
