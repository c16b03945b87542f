"""The kinds of answers that a task asks for: a class or a value for each sample.

A further kind is one more class that implements `answer.Answer`, with its name in `KINDS`.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.models.heads import Classifier
from discipline_jax.tasks.answer import Answer, Layout, Measured, Targets
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.metrics import CLASS_METRICS, VALUE_METRICS, score, vote

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


@dataclasses.dataclass(frozen=True)
class Class(Answer):
  """One of several classes for each sample.

  Attributes:
    labels: names of the classes, by number.
    metric: of `metrics.CLASS_METRICS`.
    vote: how the samples of a group decide on its class, `majority` or `first`; None if each sample is judged alone.
  """

  kind = "classification"
  metrics = CLASS_METRICS
  labels: tuple[str, ...]
  metric: str = CLASS_METRICS[0]
  vote: str | None = None

  @classmethod
  def parse(cls, text: str, place: str) -> str:
    label = _present(text, place)
    if label.lower() == "nan":  # what other programs write for a missing label
      raise UserError(
        f"the label {label!r} means that there is none, {place}; give one, or leave the row out"
      )
    return label

  @classmethod
  def fit(cls, labels: Mapping[str, Sequence[str]], metric: str, path: str) -> "Class":
    names = tuple(sort_labels({label for part in labels.values() for label in part}))
    if len(names) < 2:
      raise UserError(
        f"only one class, {names[0]!r}, {path}; set task.kind=regression, or give two classes"
      )
    if metric == "f1" and len(names) > 2:
      raise UserError(
        f"task.metric = 'f1' needs two classes, but {path} has {len(names)}; set task.metric=macro_f1"
      )
    rows = sum(map(len, labels.values()))
    if len(names) > rows / 2:
      logging.warning(
        "%d classes for %d samples; if the labels are values, set task.kind=regression",
        len(names),
        rows,
      )
    absent = set(names) - set(labels["train" if "train" in labels else "all"])
    if absent:
      logging.warning("no training sample has the class %s", ", ".join(sort_labels(absent)))
    return cls(names, metric)

  def encode(self, label: str) -> int:
    return self.labels.index(label)

  @property
  def head(self) -> Classifier:
    return Classifier(len(self.labels))

  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    del layout  # there is one label for a whole sample
    return {"labels": np.array([example.label for example in examples], np.int32)}

  def strata(self, targets: Targets) -> np.ndarray:
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
    return Measured(float(losses.mean()), score(self.metric, labels, predicted), collapsed)

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

  def describe(self, targets: Targets) -> dict[str, str]:
    counts = np.bincount(targets["labels"], minlength=len(self.labels))
    return {"classes": ", ".join(map("{} {}".format, self.labels, counts))}

  @property
  def summary(self) -> str:
    return f"{len(self.labels)} classes"


@dataclasses.dataclass(frozen=True)
class Value(Answer):
  """A value for each sample, by least squares.

  Attributes:
    metric: of `metrics.VALUE_METRICS`.
  """

  kind = "regression"
  metrics = VALUE_METRICS
  labels = ()
  metric: str = VALUE_METRICS[0]

  @classmethod
  def parse(cls, text: str, place: str) -> float:
    label = _present(text, place)
    try:
      value = float(label)
    except ValueError:
      value = math.nan
    if not abs(value) <= float(np.finfo(np.float32).max):
      raise UserError(f"the label {label[:40]!r} is not a finite number, {place}; correct the line")
    return value

  @classmethod
  def fit(cls, labels: Mapping[str, Sequence[float]], metric: str, path: str) -> "Value":
    del labels, path  # any finite numbers will do
    return cls(metric)

  def encode(self, label: float) -> float:
    return label

  @property
  def head(self) -> Classifier:
    return Classifier(1)

  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    del layout  # there is one label for a whole sample
    return {"labels": np.array([example.label for example in examples], np.float32)}

  def strata(self, targets: Targets) -> np.ndarray:
    return targets["labels"]

  def losses(self, outputs: Float[Array, "rows 1"], targets: Targets) -> Float[Array, " rows"]:
    """Returns the squared error of each row."""
    return jnp.square(outputs[:, 0] - targets["labels"])

  def measure(
    self,
    outputs: Float[np.ndarray, "samples 1"],
    targets: Targets,
    groups: Int32[np.ndarray, " samples"],
  ) -> Measured:
    del groups  # each sample is judged alone
    labels, predicted = targets["labels"], outputs[:, 0]
    losses = np.square(predicted - labels)
    collapsed = bool(predicted.std() < 0.01 * labels.std())
    return Measured(float(losses.mean()), score(self.metric, labels, predicted), collapsed)

  @property
  def columns(self) -> list[str]:
    return ["prediction"]

  def rows(
    self, outputs: Float[np.ndarray, "samples 1"], layout: Layout
  ) -> Iterator[list[list[Any]]]:
    del layout
    for value in outputs[:, 0]:
      yield [[float(value)]]

  def describe(self, targets: Targets) -> dict[str, str]:
    low, middle, high = np.quantile(targets["labels"], [0, 0.5, 1])
    return {"values": f"{low:g} to {high:g}, median {middle:g}"}

  @property
  def summary(self) -> str:
    return "values"


KINDS: dict[str, type[Answer]] = {answer.kind: answer for answer in (Class, Value)}


def from_json(fields: Mapping[str, Any]) -> Answer:
  """Makes the answer that `Answer.to_json` wrote the fields of."""
  settings = {
    name: tuple(value) if isinstance(value, list) else value
    for name, value in fields.items()
    if name != "kind"
  }
  return KINDS[fields["kind"]](**settings)


def sort_labels(values: Any) -> list[str]:
  """Sorts names: as numbers if all of them are integers, else as text."""
  values = sorted(values)  # first, so that 1 and 01 have an order
  try:
    return sorted(values, key=int)
  except ValueError:
    return values


def _present(text: str, place: str) -> str:
  label = text.strip()
  if not label:
    raise UserError(f"no label, {place}; every row needs one")
  control = _CONTROL.search(label)
  if control:
    raise UserError(f"the control character {control[0]!r} in a label, {place}; correct the line")
  return label
