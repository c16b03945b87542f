"""The kinds of answers that a task asks for, and the first of them: a class for each sample.

A further kind is one more class that implements `answer.Answer`, in a file of its own, with its name in `KINDS`.
"""

import dataclasses
import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Array, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.metrics import CLASS_METRICS, vote
from discipline_jax.models.heads import Classifier
from discipline_jax.tasks.answer import Answer, Layout, Measured, Targets, measured_by
from discipline_jax.tasks.class_names import (
  class_key,
  class_name,
  class_names,
  present,
  refused,
  sort_labels,
)
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.label_sets import LabelSet
from discipline_jax.tasks.position_values import PositionValues
from discipline_jax.tasks.tags import Tags
from discipline_jax.tasks.values import Value


@dataclasses.dataclass(frozen=True)
class Class(Answer):
  """One of several classes for each sample.

  Attributes:
    labels: names of the classes, by number.
    metric: one of `metrics.CLASS_METRICS`.
    vote: how the samples of a group decide on its class, `majority` or `first`; None if each sample is judged alone.
  """

  kind = "classification"
  metrics = CLASS_METRICS
  labels: tuple[str, ...]
  metric: str = CLASS_METRICS[0]
  vote: str | None = None

  @classmethod
  def refused(cls, labels: Iterable[str | None]) -> Mapping[str, str]:
    return refused(labels)

  @classmethod
  def keys(cls, label: str) -> Collection[Hashable]:
    return (class_key(label),)

  @classmethod
  def parse(cls, text: str, place: str) -> str:
    return class_name(present(text, place))

  @classmethod
  def fit(cls, labels: Mapping[str, Sequence[str]], metric: str, path: str) -> "Class":
    found = class_names(label for part in labels.values() for label in part)
    names = tuple(sort_labels(found.values()))
    if len(names) < 2:
      is_number = not isinstance(class_key(names[0]), str)
      values = "set task.kind=regression if labels are values, or " if is_number else ""
      raise UserError(f"only one class, {names[0]!r}, {path}; {values}give rows of another class")
    if metric == "f1" and len(names) > 2:
      raise UserError(
        f"task.metric = 'f1' needs two classes, but {path} has {len(names)}; set task.metric=macro_f1"
      )
    rows = sum(map(len, labels.values()))
    if len(names) > rows / 2:
      are_numbers = all(not isinstance(class_key(name), str) for name in names)
      logging.warning(
        "%d classes for %d samples; %s",
        len(names),
        rows,
        "if the labels are values, set task.kind=regression"
        if are_numbers
        else "check that these are the labels and not the names of sequences",
      )
    return cls(names, metric)

  def encode(self, label: str) -> int:
    if label in self.labels:
      return self.labels.index(label)
    return [class_key(name) for name in self.labels].index(class_key(label))  # `01` for `1`

  @property
  def head(self) -> Classifier:
    return Classifier(len(self.labels))

  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    del layout  # there is one label for a whole sample
    return {"labels": np.array([example.label for example in examples], np.int32)}

  def strata(self, targets: Targets) -> np.ndarray:
    return targets["labels"]

  def classes(self, targets: Targets) -> np.ndarray:
    return targets["labels"]

  def losses(
    self, outputs: Float[Array, "rows classes"], targets: Targets
  ) -> Float[Array, " rows"]:
    """Returns the cross-entropy of each row."""
    import optax  # only training needs it

    return optax.softmax_cross_entropy_with_integer_labels(outputs, targets["labels"])

  def measure(
    self,
    outputs: Float[np.ndarray, "samples classes"],
    targets: Targets,
    groups: Int32[np.ndarray, " samples"],
  ) -> Measured:
    labels, predicted = targets["labels"], outputs.argmax(-1)
    losses = np.logaddexp.reduce(outputs, axis=-1) - outputs[np.arange(len(labels)), labels]
    collapsed = len(np.unique(predicted)) == 1
    if self.vote:
      truth = vote(labels, groups, "first")
      votes = vote(predicted, groups, self.vote)
      labels = np.array([truth[group] for group in votes])
      predicted = np.array(list(votes.values()))
    return measured_by(self.metric, losses, collapsed, labels, predicted)

  def units(
    self, samples: Int32[np.ndarray, " samples"], groups: Int32[np.ndarray, " samples"]
  ) -> np.ndarray:
    return np.unique(groups) if self.vote else samples  # the order in which `vote` has them

  @property
  def columns(self) -> list[str]:
    return ["prediction", *(f"p_{label}" for label in self.labels)]

  def rows(
    self, outputs: Float[np.ndarray, "samples classes"], layout: Layout
  ) -> Iterator[list[list[Any]]]:
    del layout
    probabilities = np.exp(outputs - np.logaddexp.reduce(outputs, axis=-1, keepdims=True))
    for number, row in zip(outputs.argmax(-1), probabilities, strict=True):
      yield [[self.labels[number], *map(float, row)]]

  def combined(
    self, outputs: Float[np.ndarray, "replicas samples classes"]
  ) -> tuple[np.ndarray, Float[np.ndarray, " samples"]]:
    logs = outputs - np.logaddexp.reduce(outputs, axis=-1, keepdims=True)
    together = np.logaddexp.reduce(logs, axis=0) - np.float32(math.log(len(logs)))
    chosen = together.argmax(-1)[None, :, None]
    return together, np.exp(np.take_along_axis(logs, chosen, axis=-1))[..., 0].std(0, ddof=1)

  def describe(self, targets: Targets) -> dict[str, str]:
    counts = np.bincount(targets["labels"], minlength=len(self.labels))
    return {"classes": ", ".join(map("{} {}".format, self.labels, counts))}

  @property
  def summary(self) -> str:
    return f"{len(self.labels)} classes"


KINDS: dict[str, type[Answer]] = {
  answer.kind: answer for answer in (Class, Value, Tags, PositionValues, LabelSet)
}


def from_json(fields: Mapping[str, Any]) -> Answer:
  """Makes the answer that `Answer.to_json` wrote the fields of."""
  settings = {
    name: tuple(value) if isinstance(value, list) else value
    for name, value in fields.items()
    if name != "kind"
  }
  return KINDS[fields["kind"]](**settings)
