"""Concludes from the test predictions of several models which is best, by how much, and what that does not show.

Each sentence is made from the intervals alone, so that it is also true where nothing was learnt, where a baseline wins,
and where the samples or the seeds are too few.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from discipline_jax.command_line import format_columns
from discipline_jax.metrics import resampled, score
from discipline_jax.report.statistics import paired_bootstrap, paired_interval

_RESAMPLES = 1000  # as in a report, which then has the same intervals
_FEW = 100  # test samples; with fewer, an interval of accuracy is up to 20 points wide
CONSTANT, LINEAR = "constant", "linear"  # names of the baselines
_WHAT = {CONSTANT: "one answer for all samples", LINEAR: "the linear model"}


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A model with its test predictions; all candidates have the same seeds and samples.

  Attributes:
    name: an init of the network, or one of the baselines.
    is_network: whether it is no baseline.
    units: number of each scored sample [seeds, samples].
    labels, predicted: true and predicted classes or values [seeds, samples].
    collapsed: whether it predicts (nearly) the same for all validation samples, with at least one seed.
  """

  name: str
  is_network: bool
  units: np.ndarray
  labels: np.ndarray
  predicted: np.ndarray
  collapsed: bool = False

  def scores(self, metric: str) -> list[float]:
    """Returns the test score of each seed."""
    return [
      score(metric, labels, predicted)
      for labels, predicted in zip(self.labels, self.predicted, strict=True)
    ]


@dataclasses.dataclass(frozen=True)
class Difference:
  """The difference of the test scores of two candidates, with its 95% intervals.

  Attributes:
    first, second: names of the candidates.
    mean: mean over the seeds of the first one's score minus the second one's.
    by_samples: the paired bootstrap over test samples, all seeds together.
    by_seeds: Student's over the seeds; None if all seeds have the same difference, which says nothing of others.
  """

  first: str
  second: str
  mean: float
  by_samples: tuple[float, float]
  by_seeds: tuple[float, float] | None

  @property
  def is_told_apart(self) -> bool:
    """Whether the interval over samples leaves out 0."""
    return not self.by_samples[0] <= 0 <= self.by_samples[1]

  @property
  def is_stable(self) -> bool:
    """Whether the interval over seeds leaves out 0, too, on the same side."""
    if self.by_seeds is None or not self.is_told_apart:
      return False
    return self.by_seeds[0] > 0 if self.mean > 0 else self.by_seeds[1] < 0


def difference(metric: str, first: Candidate, second: Candidate) -> Difference:
  """Returns how far one candidate is above another, and how certain that is."""
  mean, low, high = paired_bootstrap(
    partial(resampled, metric),
    first.labels,
    first.predicted,
    second.predicted,
    resamples=_RESAMPLES,
    seed=0,
    units=first.units,
  )
  own, other = first.scores(metric), second.scores(metric)
  by_seeds = None
  if np.ptp(np.subtract(own, other)) > 1e-9:
    by_seeds = paired_interval(own, other)[1:]
  # The mean of what is resampled may differ from it by rounding alone.
  mean = 0.0 if abs(mean) < 1e-9 else mean
  return Difference(first.name, second.name, mean, (low, high), by_seeds)


def conclude(metric: str, candidates: Sequence[Candidate], limits: Sequence[str]) -> dict[str, Any]:
  """Compares the candidates, and says in sentences what follows.

  Args:
    metric: of the scores.
    candidates: at least one network, and both baselines.
    limits: what else the comparison cannot tell, each to follow `It cannot tell`.

  Returns:
    `best` and `best_network` (names), `differences` (dicts: the best candidate against each other one, pretrained
    against scratch, and the best network against the baselines), `sentences` and `limits`.
  """
  means = {one.name: float(np.mean(one.scores(metric))) for one in candidates}
  ranked = sorted(
    candidates, key=lambda one: -means[one.name]
  )  # at equal scores, as they are given
  best, networks = ranked[0], [one for one in ranked if one.is_network]
  by_name = {one.name: one for one in candidates}
  pairs = [(best, other) for other in ranked[1:]]
  if {"pretrained", "scratch"} <= by_name.keys():
    pairs.append((by_name["pretrained"], by_name["scratch"]))
  pairs += [(networks[0], by_name[name]) for name in (LINEAR, CONSTANT)]
  found: dict[tuple[str, str], Difference] = {}
  for first, second in pairs:
    if first is not second and (first.name, second.name) not in found:
      found[first.name, second.name] = difference(metric, first, second)
  all_collapsed = all(one.collapsed for one in networks)
  sentences = [_headline(metric, best, ranked[1], means, found[best.name, ranked[1].name])]
  if all_collapsed:
    sentences.append(
      "Every network predicts (nearly) the same for all validation samples, with a seed at least, so nothing here says"
      " anything about pre-training; try lower compare.rates, train.warmup_steps, more epochs, or another seed."
    )
  elif ("pretrained", "scratch") in found:
    sentences.append(_about_pretraining(found["pretrained", "scratch"], by_name, best, ranked[1]))
  sentences.append(_about_baselines(best, networks[0], found))
  return {
    "best": best.name,
    "best_network": networks[0].name,
    "differences": [dataclasses.asdict(one) for one in found.values()],
    "sentences": sentences,
    "limits": [*_own_limits(best, networks), *limits],
  }


def _headline(
  metric: str, best: Candidate, second: Candidate, means: Mapping[str, float], by: Difference
) -> str:
  seeds, samples = best.labels.shape
  on = f"{samples} test sample{'s' * (samples > 1)} in each of {seeds} seeds"
  if by.mean == 0:
    return (
      f"{best.name} and {second.name} both have the best test score, {metric} {means[best.name]:.1f}, on {on}"
      f" (difference 0, {_intervals(by)}). {_meaning(by)}"
    )
  return (
    f"Best on test is {best.name} with {metric} {means[best.name]:.1f}, {_number(by.mean)} above the next best,"
    f" {second.name}, on {on} ({_intervals(by)}). {_meaning(by)}"
  )


def _intervals(by: Difference) -> str:
  over_seeds = (
    "the seeds all differ by the same, so there is none over seeds"
    if by.by_seeds is None
    else f"Student's over seeds {_range(by.by_seeds)}"
  )
  return f"95% interval {_range(by.by_samples)}, paired over samples; {over_seeds}"


def _meaning(by: Difference) -> str:
  if not by.is_told_apart:
    return "The interval over samples holds 0: these runs do not tell the two apart."
  if by.is_stable:
    return "Both intervals leave out 0, so neither other samples nor other seeds are likely to turn it round."
  return (
    "The interval over samples leaves out 0, but that over seeds"
    + (" says nothing" if by.by_seeds is None else " does not")
    + ": it holds for these seeds, and others may turn it round."
  )


def _about_pretraining(
  by: Difference, candidates: Mapping[str, Candidate], best: Candidate, second: Candidate
) -> str:
  """Answers the question itself: pretrained against scratch."""
  fallen = [name for name in (by.first, by.second) if candidates[name].collapsed]
  text = ""
  if {by.first, by.second} != {best.name, second.name}:
    where = "level with" if by.mean == 0 else f"{_number(abs(by.mean))} {_side(by.mean)}"
    text = f"Pretrained is {where} scratch ({_intervals(by)}). "
  if fallen:
    return f"{text}As {' and '.join(fallen)} collapsed, their difference says nothing about pre-training."
  if not by.is_told_apart:
    return f"{text}Whether pre-training helps, these runs do not show."
  word = "helps" if by.mean > 0 else "hurts"
  return text + (
    f"So pre-training {word} here."
    if by.is_stable
    else f"So pre-training {word} with these seeds; more seeds would show whether it always does."
  )


def _about_baselines(
  best: Candidate, network: Candidate, found: Mapping[tuple[str, str], Difference]
) -> str:
  if not best.is_network:
    return f"No network is better than {_WHAT[best.name]}, which takes seconds."
  chance = found[network.name, CONSTANT]
  if not chance.is_told_apart or chance.mean <= 0:
    return (
      f"{network.name} is not told apart from one answer for all samples (difference {_number(chance.mean)},"
      f" {_intervals(chance)}): no network has shown that it learnt anything."
    )
  linear = found[network.name, LINEAR]
  if not linear.is_told_apart:
    return (
      f"{network.name} is better than one answer for all samples, but not told apart from the linear model, which takes"
      f" seconds (difference {_number(linear.mean)}, {_intervals(linear)})."
    )
  return f"{network.name} is {_number(linear.mean)} above the linear model, which takes seconds ({_intervals(linear)})."


def _own_limits(best: Candidate, networks: Sequence[Candidate]) -> list[str]:
  seeds, samples = best.labels.shape
  limits = [
    f"how far other seeds would differ: there are {seeds}",
    "how good the best one is on new samples: it was picked by the same test scores, which flatters it a little",
  ]
  if samples < _FEW:
    limits.append(f"small differences: {samples} test samples are few")
  limits += [
    f"what {one.name} can do: with a seed at least, it predicts (nearly) the same for all validation samples"
    for one in networks
    if one.collapsed
  ]
  return limits


def _side(value: float) -> str:
  return "above" if value > 0 else "below"


def _number(value: float) -> str:
  """Writes a score or a difference with one decimal, and with more where it would look like 0."""
  return f"{value:.1f}" if abs(value) >= 0.1 or value == 0 else f"{value:.1g}"


def _range(interval: tuple[float, float]) -> str:
  return f"{_number(interval[0])} to {_number(interval[1])}"


def show(result: Mapping) -> str:
  """Returns the table and the sentences of a finished comparison, for the terminal."""
  rows: list[tuple[str, ...]] = [
    ("", "setting", "validation", "test", "seeds", f"{result['best']} is above it by")
  ]
  against = {one["second"]: one for one in result["differences"] if one["first"] == result["best"]}
  for name, one in result["candidates"].items():
    by = against.get(name)
    scores = [
      f"{one[part]['mean']:.1f} ± {one[part]['std']:.1f}" for part in ("validation", "test")
    ]
    seeds = ", ".join(f"{run:.1f}" for run in one["test"]["runs"])
    lead = "" if by is None else f"{_number(by['mean'])} ({_range(tuple(by['by_samples']))})"
    rows.append((name, one["setting"], *scores, seeds, lead))
  table = format_columns(rows)
  limits = "".join(f"\n- {one}" for one in result["limits"])
  return (
    "\n".join([f"\n{result['task']} ({result['metric']})\n", table, "", *result["sentences"]])
    + f"\n\nIt cannot tell{limits}"
  )
