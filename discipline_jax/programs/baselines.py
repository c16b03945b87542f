"""Predicts without a network, in seconds: one answer for all samples, and a linear model on counts of symbols.

Of positions, the linear model reads the symbols around each. They read the very arrays that the networks read, and are
trained and scored on the same parts.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.programs.linear_models import Outputs, linear_models
from discipline_jax.programs.position_baselines import Around, fit_positions
from discipline_jax.programs.sequences import Sequences, whole_sequences
from discipline_jax.programs.symbol_counts import count_sequences
from discipline_jax.tasks.answer import Answer, Measured
from discipline_jax.tasks.features import NUM_SPECIAL
from discipline_jax.tasks.label_sets import BETWEEN, LabelSet
from discipline_jax.tasks.positions import PositionAnswer
from discipline_jax.tasks.splits import Split

# Around positions, as many symbols are read in a row as have at most so many different runs.
_MOST_RUNS = 256


@dataclasses.dataclass(frozen=True)
class Baseline:
  """Holds the answers of a model without a network for one replica's split.

  Attributes:
    setting: such as `always N`.
    units: for `validation` and each test part, the number of each sample that is scored or, if samples vote, of each
      group.
    labels, predicted: likewise, the true and the predicted answers, see `Measured`.
  """

  setting: str
  units: Mapping[str, np.ndarray]
  labels: Mapping[str, np.ndarray]
  predicted: Mapping[str, np.ndarray]


def fit_baselines(plan: Plan) -> dict[str, list[Baseline]]:
  """Fits the baselines to the training part of each replica.

  `constant` gives all samples the same: the largest class of the training part (the second class, if the metric is its
  F1), the mean of its values, or of several labels those with the highest score in training. `linear` is logistic or
  ridge regression on the counts of one to four symbols in a row, of pairs side by side, each divided by its maximum;
  its penalty is the one that scores best on validation. For answers about positions see `fit_positions`.

  Args:
    plan: of a fine-tuning.

  Returns:
    By name, one for each replica.

  Raises:
    UserError: a training part with one class or tag only.
  """
  data, answer = whole_sequences(plan), plan.task.answer
  if isinstance(answer, PositionAnswer):
    return _of_positions(answer, data, len(plan.features.symbol_ids) - NUM_SPECIAL)
  counts = count_sequences(data.symbols, data.segments, len(plan.features.symbol_ids))
  fitted: dict[str, list[Baseline]] = {"constant": [], "linear": []}
  for split in data.splits:
    linear = _linear(answer, data, split, counts)
    fitted["linear"].append(linear)
    fitted["constant"].append(_constant(answer, data.labels[split["train"]], linear))
  return fitted


def _of_positions(answer: PositionAnswer, data: Sequences, size: int) -> dict[str, list[Baseline]]:
  """Fits the baselines of positions, which read runs of symbols if there are few different ones, as in DNA."""
  symbols = data.symbols.astype(np.int32) - NUM_SPECIAL
  k = max(1, int(np.log(_MOST_RUNS) / np.log(max(2, size))))
  fitted: dict[str, list[Baseline]] = {}
  for split in data.splits:
    # As wide as the longest sequence of a part, as the predictions of networks are.
    widths = {part: int((symbols[own] >= 0).sum(1).max()) for part, own in split.items()}
    for name, one in fit_positions(answer, symbols, data.labels, split, size, Around(k=k)).items():
      fitted.setdefault(name, []).append(
        Baseline(
          one.setting,
          {part: split[part] for part in one.predicted},
          {part: data.labels[split[part], : widths[part]] for part in one.predicted},
          {part: own[:, : widths[part]] for part, own in one.predicted.items()},
        )
      )
  return fitted


def _constant(answer: Answer, labels: np.ndarray, linear: Baseline) -> Baseline:
  """Returns the same answer for all that the linear model answers, given the labels of the training part."""
  value, setting = _constant_value(answer, labels)
  predicted = {part: np.broadcast_to(value, own.shape) for part, own in linear.labels.items()}
  return dataclasses.replace(linear, setting=setting, predicted=predicted)


def _constant_value(answer: Answer, labels: np.ndarray) -> tuple[np.ndarray, str]:
  """Returns what is predicted for all samples, and its name."""
  if isinstance(answer, LabelSet):
    chosen = _best_labels(answer.metric, labels)
    names = BETWEEN.join(name for name, is_in in zip(answer.labels, chosen, strict=True) if is_in)
    return np.where(chosen, 1, -1).astype(np.float32), f"always {names or 'none'}"
  if answer.labels:
    counts = np.bincount(labels, minlength=len(answer.labels))
    number = 1 if answer.metric == "f1" else int(counts.argmax())
    return np.array(number, labels.dtype), f"always {answer.labels[number]}"
  value = float(labels.mean())
  return np.array(value, labels.dtype), f"always {value:.4g}, the mean"


def _best_labels(metric: str, labels: np.ndarray) -> np.ndarray:
  """Returns which labels, given to all samples, score best: all, the most frequent ones or, if it is all one, none."""
  size, number = labels.shape
  if metric == "average_precision":  # equal logits have one precision, whatever they are
    return np.zeros(number, bool)
  true = labels.sum(0, dtype=int)
  if metric == "macro_f1":
    return true > 0
  order = np.argsort(-true, kind="stable")
  found = np.cumsum(true[order])
  best = int((2 * found / (size * np.arange(1, number + 1) + found[-1])).argmax())
  return np.isin(np.arange(number), order[: best + 1])


def _linear(answer: Answer, data: Sequences, split: Split, counts: Any) -> Baseline:
  """Fits the linear model to counts of symbols."""
  from sklearn.preprocessing import MaxAbsScaler

  own_counts = counts[split["train"]]
  seen = np.flatnonzero(own_counts.getnnz(axis=0))  # the others would have no weight
  scaled = MaxAbsScaler().fit(own_counts[:, seen]).transform(counts[:, seen])
  return fit_linear(answer, data, split, scaled)


def fit_linear(answer: Answer, data: Sequences, split: Split, scaled: Any) -> Baseline:
  """Fits logistic or ridge regression with each penalty, and keeps the one that scores best on validation.

  Args:
    answer: of the task, not one about positions.
    data: the samples.
    split: of one replica.
    scaled: what is known of each sample [samples, features], of similar size for all features; may be sparse.

  Raises:
    UserError: a training part with one class only.
  """
  train = split["train"]
  others = {part: samples for part, samples in split.items() if part != "train"}

  def measure(outputs_of: Outputs) -> dict[str, Measured]:
    return {
      part: answer.measure(outputs_of(scaled[own]), {"labels": data.labels[own]}, data.groups[own])
      for part, own in others.items()
    }

  models = linear_models(answer, scaled[train], data.labels[train])
  measured = ((name, measure(outputs_of)) for name, outputs_of in models)
  setting, best = max(measured, key=lambda one: one[1]["validation"].score)
  return Baseline(
    setting,
    {part: answer.units(own.astype(np.int32), data.groups[own]) for part, own in others.items()},
    {part: one.labels for part, one in best.items()},
    {part: one.predicted for part, one in best.items()},
  )
