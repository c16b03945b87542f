"""Compares runs with the run from scratch on the same task: by task, and over tasks."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from discipline_jax import metrics
from discipline_jax.report.collect import Collected
from discipline_jax.report.curves import Curve, updates_until
from discipline_jax.report.labels import column, is_scratch
from discipline_jax.report.predictions import Scored, paired, read_predictions
from discipline_jax.report.statistics import (
  adjusted_p_values,
  paired_bootstraps,
  paired_interval,
  paired_p_value,
  probability_of_improvement,
  task_interval,
)
from discipline_jax.report.tree import Run

RESAMPLES = 1000
_SEED = 0  # of the draws: the same report again has the same intervals
_BY_TASK = (
  *("run", "against", "discipline", "task", "part", "variant", "metric", "mean", "scratch_mean"),
  *("seeds", "difference", "low_seeds", "high_seeds", "p_value", "p_adjusted"),
  *("samples", "low_samples", "high_samples", "updates", "scratch_updates", "remark"),
)
_WHOLE = ("samples", "updates", "scratch_updates")  # and may be missing
_FLOATS = ("low_seeds", "high_seeds", "p_value", "low_samples", "high_samples")
_OVER_TASKS = (
  *("variant", "discipline", "tasks", "difference", "low", "high"),
  *("probability", "probability_low", "probability_high"),
)


@dataclasses.dataclass(frozen=True)
class Comparisons:
  """The comparisons with scratch.

  Attributes:
    by_task: a row for each run and test part.
    over_tasks: a row for each variant that was compared on two tasks or more: of one discipline, and of all.
    notes: files that could not be used, and runs without anything to compare with, one line each.
  """

  by_task: pd.DataFrame
  over_tasks: pd.DataFrame
  notes: tuple[str, ...]


def compare(collected: Collected, curves: Mapping[str, Mapping[str, Curve]]) -> Comparisons:
  """Returns the comparisons of all runs with scratch.

  Args:
    collected: the runs.
    curves: the curves of each run, by its name and by split.
  """
  notes: list[str] = []
  by_name = {run.name: run for run in collected.tree.runs if run.mode == "finetune"}
  scratch = [run for run in by_name.values() if is_scratch(run)]
  rows = []
  for run in by_name.values():
    if is_scratch(run) or not scratch:
      continue
    baseline = _baseline(run, scratch, collected)
    if baseline is None:
      notes.append(f"not compared, no run from scratch on the same task and samples: {run.name}")
      continue
    names = collected.names[run.name]
    shared = {
      "run": run.name,
      "against": baseline.name,
      "discipline": names.discipline,
      "variant": names.variant,
      "metric": run.result["metric"],
      "remark": _remark(run, baseline),
      **_updates(curves.get(run.name, {}), curves.get(baseline.name, {})),
    }
    for part in run.parts[1:]:
      if part in baseline.result:
        over_seeds = _over_seeds(run, baseline, part)
        rows.append({**shared, "task": column(run, part), "part": part, **over_seeds})
  _add_intervals_over_samples(rows, by_name, notes)
  by_task = pd.DataFrame(rows, columns=list(_BY_TASK))
  by_task["p_adjusted"] = adjusted_p_values(by_task["p_value"].to_numpy(np.float64))
  by_task = by_task.astype(dict.fromkeys(_WHOLE, "Int64") | dict.fromkeys(_FLOATS, "float64"))
  over_tasks = pd.DataFrame(_over_tasks(rows, by_name), columns=list(_OVER_TASKS))
  return Comparisons(by_task, over_tasks, tuple(dict.fromkeys(notes)))


def _baseline(run: Run, scratch: list[Run], collected: Collected) -> Run | None:
  """Returns the run from scratch on the same task and training samples that is most like a run.

  First counts the network, then the setting, then the seeds, then the order of the study.
  """
  labels = {one.name: collected.names[one.name].labels for one in (run, *scratch)}
  alike = [
    one
    for one in scratch
    if column(one, "test") == column(run, "test")
    and one.result["metric"] == run.result["metric"]
    and labels[one.name].get("fraction") == labels[run.name].get("fraction")
  ]

  def likeness(one: Run) -> tuple[bool, bool, int]:
    return (
      one.result.get("network") == run.result.get("network"),
      labels[one.name].get("setting") == labels[run.name].get("setting"),
      len(set(one.seeds or ()) & set(run.seeds or ())),
    )

  return max(alike, key=likeness, default=None)


def _shared(run: Run, other: Run, part: str) -> tuple[list[int], list[float], list[float]]:
  """Returns the seeds that two runs share, and the scores of both."""
  ours, theirs = (
    dict(zip(one.seeds or (), one.result[part]["runs"], strict=False)) for one in (run, other)
  )
  seeds = [seed for seed in ours if seed in theirs]
  return seeds, [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]


def _over_seeds(run: Run, baseline: Run, part: str) -> dict[str, Any]:
  """Returns the difference and, from two shared seeds with different ones on, Student's interval and p-value."""
  seeds, ours, theirs = _shared(run, baseline, part)
  found = {
    "mean": run.result[part]["mean"],
    "scratch_mean": baseline.result[part]["mean"],
    "seeds": seeds,
    "difference": float(np.mean(ours) - np.mean(theirs))
    if seeds
    else run.result[part]["mean"] - baseline.result[part]["mean"],
    "p_value": math.nan,
  }
  if len(seeds) > 1:
    found["p_value"] = paired_p_value(ours, theirs)
    # Equal differences are no certainty, so they have no interval.
    if not math.isnan(found["p_value"]):
      _, found["low_seeds"], found["high_seeds"] = paired_interval(ours, theirs)
  return found


def _add_intervals_over_samples(
  rows: list[dict[str, Any]], runs: Mapping[str, Run], notes: list[str]
) -> None:
  """Adds to each row the interval over scored samples, if both runs kept what they predicted for the same ones.

  Runs that are compared with the same one, on the same samples, are resampled together.
  """
  read = functools.cache(lambda name, part: _read(runs[name], part, notes))
  groups: dict[tuple, list[tuple[dict[str, Any], Scored, np.ndarray]]] = {}
  for row in rows:
    own, other = (read(row[name], row["part"]) for name in ("run", "against"))
    found = None if own is None or other is None else paired(own, other)
    if found is not None and found[0].units.shape[1] > 1:
      key = (row["against"], row["part"], row["metric"], *found[0].seeds.tolist())
      groups.setdefault(key, []).append((row, *found))
  for group in groups.values():
    first, scored, theirs = group[0]
    intervals = paired_bootstraps(
      functools.partial(metrics.resampled, first["metric"]),
      scored.labels,
      [one.predicted for _, one, _ in group],
      theirs,
      resamples=RESAMPLES,
      seed=_SEED,
      units=scored.units,
    )
    number = len(np.unique(scored.units))
    for (row, _, _), (_, low, high) in zip(group, intervals, strict=True):
      row |= {"samples": number, "low_samples": low, "high_samples": high}


def _read(run: Run, part: str, notes: list[str]) -> Scored | None:
  try:
    return read_predictions(run, part)
  except ValueError as error:
    notes.append(f"{error}; left out")
    return None


def _updates(ours: Mapping[str, Curve], theirs: Mapping[str, Curve]) -> dict[str, int | None]:
  """Returns after how many updates a run has scratch's best validation score, and after how many scratch has it."""
  if "validation" not in ours or "validation" not in theirs:
    return {}
  best = float(theirs["validation"].mean.max())
  return {
    "updates": updates_until(ours["validation"], best),
    "scratch_updates": updates_until(theirs["validation"], best),
  }


def _remark(run: Run, baseline: Run) -> str:
  """Returns what makes the comparison less fair than it looks."""
  remarks = [
    f"{name} differs"
    for name in ("network", "device", "versions")
    if run.result.get(name) != baseline.result.get(name)
  ]
  remarks += [f"{one.name} collapsed" for one in (run, baseline) if one.result.get("collapsed")]
  return ", ".join(remarks)


def _over_tasks(rows: Sequence[Mapping[str, Any]], runs: Mapping[str, Run]) -> list[dict[str, Any]]:
  """Returns the means over tasks, for each variant: within disciplines, then over all of them."""
  groups: dict[str, dict[str, list]] = {}
  for row in rows:
    if len(row["seeds"]) > 1:
      pair = _shared(runs[row["run"]], runs[row["against"]], row["part"])
      groups.setdefault(row["variant"], {}).setdefault(row["discipline"], []).append(pair)
  found = []
  for variant, disciplines in groups.items():
    everything = [pair for pairs in disciplines.values() for pair in pairs]
    wholes = {"all": everything} if len(disciplines) > 1 else {}
    for name, pairs in (disciplines | wholes).items():
      if len(pairs) > 1:
        found.append({"variant": variant, "discipline": name, "tasks": len(pairs), **_means(pairs)})
  return found


def _means(pairs: list[tuple[list[int], list[float], list[float]]]) -> dict[str, float]:
  ours, theirs = ([np.array(one[i]) for one in pairs] for i in (1, 2))
  differences = [a - b for a, b in zip(ours, theirs, strict=True)]
  draw = {"resamples": RESAMPLES, "seed": _SEED}
  difference, low, high = task_interval(differences, **draw)
  probability, least, most = probability_of_improvement(ours, theirs, **draw)
  return {
    "difference": difference,
    "low": low,
    "high": high,
    "probability": probability,
    "probability_low": least,
    "probability_high": most,
  }
