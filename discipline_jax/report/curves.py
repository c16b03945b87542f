"""Reads the curves of a run from its metrics.jsonl."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from discipline_jax.files.growing import each_record
from discipline_jax.report.tree import Run

# Of a curve in a figure: more are not seen, and a page of 500 runs must stay small.
_POINTS = 40
_WITHOUT_CONTEXT = "_without_context"  # behind the name of a loss, in the result of a pre-training


@dataclasses.dataclass(frozen=True)
class Curve:
  """Holds what was measured during a run.

  Attributes:
    steps: numbers of updates, ascending.
    values: of each replica.
    without_context: of a pre-training, the loss of a model that looks at no neighbour; None for other curves.
  """

  steps: Int[np.ndarray, " points"]
  values: Float[np.ndarray, "replicas points"]
  without_context: float | None = None

  @property
  def mean(self) -> Float[np.ndarray, " points"]:
    """The mean over the replicas."""
    return self.values.mean(0)

  def thinned(self) -> "Curve":
    """Returns a curve of at most 40 points, each the mean of neighbouring ones."""
    size = -(-len(self.steps) // _POINTS)
    starts = np.arange(0, len(self.steps), size)
    counts = np.diff([*starts, len(self.steps)])
    means = np.add.reduceat(self.values, starts, axis=1) / counts
    return dataclasses.replace(self, steps=self.steps[starts + counts - 1], values=means)


def read_all(runs: Sequence[Run]) -> tuple[dict[str, dict[str, Curve]], list[str]]:
  """Returns the curves of each run by its name and by split, and a line about each log that cannot be read.

  Those of training are losses; those of validation are losses of a pre-training, and scores of a fine-tuning. If a
  pre-training knows the loss that needs no context, its validation curve is that of the same loss, of tokens alone.
  """
  curves, notes = {}, []
  for run in runs:
    bounds = {
      name.removesuffix(_WITHOUT_CONTEXT): value
      for name, value in run.result["validation"].items()
      if name.endswith(_WITHOUT_CONTEXT)
    }
    loss, without_context = next(iter(bounds.items()), ("loss", None))
    keys = {"train": "loss", "validation": run.result.get("metric", loss)}
    try:
      found = read(run.path / "metrics.jsonl", keys)
      if "validation" in found:
        found["validation"] = dataclasses.replace(
          found["validation"], without_context=without_context
        )
      curves[run.name] = found
    except ValueError as error:
      notes.append(f"{error}; its curves are left out")
    except OSError as error:
      notes.append(
        f"no log ({error.strerror}), {run.path / 'metrics.jsonl'}; its curves are left out"
      )
  return curves, notes


def read(path: pathlib.Path, keys: Mapping[str, str]) -> dict[str, Curve]:
  """Returns the curves in a log, by split; a split without any is not there.

  Args:
    path: metrics.jsonl.
    keys: what is wanted of each split, as `{"train": "loss"}`.

  Raises:
    ValueError: a line that is none of a log; the message names the file and the line.
    OSError: the file cannot be read.
  """
  found: dict[str, dict[int, dict[int, float]]] = {split: {} for split in keys}
  for number, record in enumerate(each_record(path), 1):
    try:
      split = record["split"]
      if split in keys and keys[split] in record:
        step, value = int(record["step"]), float(record[keys[split]])
        found[split].setdefault(step, {})[int(record["replica"])] = value
    except (ValueError, KeyError, TypeError):
      raise ValueError(f"no line of a log, {path}:{number}") from None
  curves = {split: _curve(values) for split, values in found.items()}
  return {split: curve for split, curve in curves.items() if len(curve.steps)}


def updates_until(curve: Curve, score: float) -> int | None:
  """Returns the first number of updates after which the mean score reaches `score`; None if it never does."""
  reached = np.flatnonzero(curve.mean >= score)
  return int(curve.steps[reached[0]]) if len(reached) else None


def _curve(values: Mapping[int, Mapping[int, float]]) -> Curve:
  """Returns the curve over the steps at which all replicas were measured, and their values were finite."""
  replicas = sorted({replica for one in values.values() for replica in one})
  rows: list[list[Any]] = [
    [step, *(one[replica] for replica in replicas)]
    for step, one in sorted(values.items())
    if len(one) == len(replicas) and np.isfinite(list(one.values())).all()
  ]
  table = np.array(rows, np.float64).reshape(len(rows), 1 + len(replicas))
  return Curve(table[:, 0].astype(np.int64), table[:, 1:].T)
