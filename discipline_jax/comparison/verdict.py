"""Concludes from the test predictions of several models which is best, by how much, and what that does not show.

Each sentence is made from the intervals alone, so that it is also true where nothing was learnt, where a baseline wins,
and where the samples or the seeds are too few.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discipline_jax.command_line import format_columns
from discipline_jax.metrics import has_several_labels, is_scored, resampled, score
from discipline_jax.report.difference import Difference, number
from discipline_jax.report.statistics import paired_bootstrap, paired_interval
from discipline_jax.report.verdicts import verdict_of

_RESAMPLES = 1000  # as in a report, which then has the same intervals
_FEW = 100  # test samples; with fewer, an interval of accuracy is up to 20 points wide
CONSTANT = "constant"  # name of the baseline that answers the same for all
_WHAT = {
  CONSTANT: "one answer for all {items}",
  "symbol": "one answer for each symbol",
  "linear": "the linear model",
}


@dataclasses.dataclass(frozen=True)
class Candidate:
  """A model with its test predictions; all candidates have the same seeds and samples.

  Attributes:
    name: an init of the network, or one of the baselines.
    is_network: whether it is no baseline.
    units: number of each scored sample [seeds, samples].
    labels, predicted: true and predicted answers [seeds, samples, ...], see `metrics.score`.
    collapsed: whether it predicts (nearly) the same for all validation samples, with at least one seed.
  """

  name: str
  is_network: bool
  units: np.ndarray
  labels: np.ndarray
  predicted: np.ndarray
  collapsed: bool = False

  @functools.cached_property
  def positions(self) -> list[int] | None:
    """The number of scored positions of each seed; None if whole samples are scored."""
    if self.labels.ndim == 2 or has_several_labels(self.labels[0], self.predicted[0]):
      return None
    return [int(is_scored(one).sum()) for one in self.labels]

  @property
  def what(self) -> str:
    """A few words for a baseline."""
    return _WHAT[self.name].format(items=self.items)

  @property
  def items(self) -> str:
    """Returns what is scored, `samples` or `positions`."""
    return "samples" if self.positions is None else "positions"

  def scores(self, metric: str) -> list[float]:
    """Returns the test score of each seed."""
    return [
      score(metric, labels, predicted)
      for labels, predicted in zip(self.labels, self.predicted, strict=True)
    ]


def difference(metric: str, first: Candidate, second: Candidate) -> Difference:
  """Returns how far one candidate is above another, and how certain that is."""
  mean, low, high = paired_bootstrap(
    functools.partial(resampled, metric),
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
    candidates: at least one network, and the baselines, `constant` and at least one other among them.
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
  simple = [one for one in ranked if not one.is_network]
  pairs += [(networks[0], one) for one in simple]
  found: dict[tuple[str, str], Difference] = {}
  for first, second in pairs:
    if first is not second and (first.name, second.name) not in found:
      found[first.name, second.name] = difference(metric, first, second)
  all_collapsed = all(one.collapsed for one in networks)
  sentences = [_headline(metric, best, ranked[1], means, found[best.name, ranked[1].name])]
  if all_collapsed:
    sentences.append(
      f"Every network predicts (nearly) the same for all validation {best.items}, with at least one seed, so nothing"
      " here says anything about pre-training; try lower compare.rates, train.warmup_steps, more epochs, or another"
      " seed."
    )
  elif ("pretrained", "scratch") in found:
    sentences.append(_about_pretraining(found["pretrained", "scratch"], by_name, best, ranked[1]))
  rival = next(one for one in simple if one.name != CONSTANT)
  sentences.append(_about_baselines(best, networks[0], rival, found))
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
  seeds, samples = best.units.shape
  on = f"{samples} test sample{'s' * (samples > 1)}{_positions(best)} in each of {seeds} seeds"
  if by.mean == 0:
    return (
      f"{best.name} and {second.name} both have the best test score, {metric} {means[best.name]:.1f}, on {on}"
      f" (difference 0, {by.intervals}). {by.meaning}"
    )
  return (
    f"Best on test is {best.name} with {metric} {means[best.name]:.1f}, {number(by.mean)} above the next best,"
    f" {second.name}, on {on} ({by.intervals}). {by.meaning}"
  )


def _positions(candidate: Candidate) -> str:
  """Says how many positions are scored, and that those of a sample are drawn together."""
  if candidate.positions is None:
    return ""
  low, high = min(candidate.positions), max(candidate.positions)
  count = f"{low:,}" if low == high else f"{low:,} to {high:,}"
  return f" ({count} scored positions; samples are drawn anew with all of theirs)"


def _about_pretraining(
  by: Difference, candidates: Mapping[str, Candidate], best: Candidate, second: Candidate
) -> str:
  """Answers the question itself: pretrained against scratch."""
  fallen = [name for name in (by.first, by.second) if candidates[name].collapsed]
  text = ""
  if {by.first, by.second} != {best.name, second.name}:
    text = f"Pretrained is {by.where} scratch ({by.intervals}). "
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
  best: Candidate,
  network: Candidate,
  rival: Candidate,
  found: Mapping[tuple[str, str], Difference],
) -> str:
  """Compares the best network with one answer for all, and with the best one of the other baselines."""
  if not best.is_network:
    return f"No network is better than {best.what}, which takes seconds."
  chance = found[network.name, CONSTANT]
  same = _WHAT[CONSTANT].format(items=network.items)
  if not chance.is_told_apart or chance.mean <= 0:
    return (
      f"{network.name} is not told apart from {same} (difference {number(chance.mean)},"
      f" {chance.intervals}): no network has shown that it learnt anything."
    )
  by = found[network.name, rival.name]
  if not by.is_told_apart:
    return (
      f"{network.name} is better than {same}, but not told apart from {rival.what}, which takes"
      f" seconds (difference {number(by.mean)}, {by.intervals})."
    )
  return (
    f"{network.name} is {number(by.mean)} above {rival.what}, which takes seconds ({by.intervals})."
  )


def _own_limits(best: Candidate, networks: Sequence[Candidate]) -> list[str]:
  seeds, samples = best.units.shape
  limits = [
    f"how far other seeds would differ: there are {seeds}",
    "how good the best one is on new samples: it was picked by the same test scores, which flatters it a little",
  ]
  if samples < _FEW:
    limits.append(
      f"small differences: {samples} test samples are few"
      + ("" if best.positions is None else ", however many positions they have")
    )
  limits += [
    f"what {one.name} can do: with at least one seed, it predicts (nearly) the same for all validation {one.items}"
    for one in networks
    if one.collapsed
  ]
  return limits


def show(result: Mapping, config: Mapping) -> str:
  """Returns the table and the sentences of a finished comparison, for the terminal; see `verdict_of`."""
  one = verdict_of(result, config)
  limits = "".join(f"\n- {limit}" for limit in one.limits)
  return (
    "\n".join([f"\n{one.title}\n", format_columns(one.table), "", *one.sentences])
    + f"\n\nIt cannot tell{limits}"
  )
