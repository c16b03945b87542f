"""The kinds of answers that a task asks for: a class or a value for each sample.

A further kind is one more class that implements `answer.Answer`, with its name in `KINDS`.
"""

import dataclasses
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.metrics import CLASS_METRICS, VALUE_METRICS, score, undefined, vote
from discipline_jax.models.heads import Classifier
from discipline_jax.tasks.answer import Answer, Layout, Measured, Targets
from discipline_jax.tasks.class_names import class_key, class_name, class_names, refused
from discipline_jax.tasks.examples import Example

# Times the largest value: single precision has about 7 digits, and at least 3 must be left for the deviations.
_SMALLEST_SPREAD = 1e-4
_LARGEST_VALUE = 1e18  # the square of a larger number does not fit into single precision
_FAR = 10  # times the range of all other values
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


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
  def key(cls, label: str) -> Hashable:
    return class_key(label)

  @classmethod
  def parse(cls, text: str, place: str) -> str:
    return class_name(_present(text, place))

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
    return _measured(self.metric, losses, collapsed, labels, predicted)

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


@dataclasses.dataclass(frozen=True)
class Value(Answer):
  """A value for each sample, by least squares.

  Attributes:
    metric: one of `metrics.VALUE_METRICS`.
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
    if not abs(value) <= float(np.finfo(np.float32).max) or "_" in label:  # Python reads 1_000
      point = "write the decimal point as a point, and thousands without a sign; " * ("," in label)
      raise UserError(
        f"the label {label[:40]!r} is not a finite number, {place}; {point}correct the line"
      )
    return value

  @classmethod
  def fit(cls, labels: Mapping[str, Sequence[float]], metric: str, path: str) -> "Value":
    _warn_of_far_values([value for part in labels.values() for value in part], path)
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

  def scale(self, targets: Targets) -> dict[str, np.float32]:
    labels = targets["labels"].astype(np.float64)
    mean, std, largest = labels.mean(), labels.std(), np.abs(labels).max()
    if std <= _SMALLEST_SPREAD * largest:
      raise UserError(
        f"the {len(labels)} values of the training part are {'all' if np.ptp(labels) == 0 else 'nearly'} the same"
        f" ({mean:g}, standard deviation {std:g}), so there is nothing to learn from them in single precision; subtract"
        " what they share, or give others"
      )
    if largest > _LARGEST_VALUE:
      raise UserError(
        f"values of up to {largest:g} have squares that single precision cannot hold; divide all values, or correct"
        " them"
      )
    return {"mean": np.float32(mean), "std": np.float32(std)}

  def restored(self, params: dict, scale: Mapping[str, Any]) -> dict:
    return self.head.rescaled(params, scale["std"], scale["mean"]) if scale else params

  def losses(self, outputs: Float[Array, "rows 1"], targets: Targets) -> Float[Array, " rows"]:
    """Returns the squared error of each row."""
    labels = targets["labels"]
    if "std" in targets:
      labels = (labels - targets["mean"]) / targets["std"]
    return jnp.square(outputs[:, 0] - labels)

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
    measured = _measured(self.metric, losses, collapsed, labels, predicted)
    if "std" not in targets:
      return measured
    return dataclasses.replace(
      measured,
      loss=measured.loss / float(targets["std"]) ** 2,
      errors={"mean_squared_error": measured.loss},
    )

  @property
  def columns(self) -> list[str]:
    return ["prediction"]

  def rows(
    self, outputs: Float[np.ndarray, "samples 1"], layout: Layout
  ) -> Iterator[list[list[Any]]]:
    del layout
    for value in outputs[:, 0]:
      yield [[float(value)]]

  def combined(
    self, outputs: Float[np.ndarray, "replicas samples 1"]
  ) -> tuple[np.ndarray, Float[np.ndarray, " samples"]]:
    return outputs.mean(0), outputs[..., 0].std(0, ddof=1)

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


def _measured(
  metric: str, losses: np.ndarray, collapsed: bool, labels: np.ndarray, predicted: np.ndarray
) -> Measured:
  constant = undefined(metric, labels, predicted)
  if constant is not None:
    logging.warning("%s is 0 because the %s are all the same", metric, constant)
  return Measured(
    float(losses.mean()), score(metric, labels, predicted), collapsed, labels, predicted
  )


def _warn_of_far_values(values: Sequence[float], path: str) -> None:
  """Logs a lowest or highest value that is far from all others, as a code for a missing one is."""
  distinct = sorted(set(values))
  for far, others in ((distinct[-1], distinct[:-1]), (distinct[0], distinct[1:])):
    if len(others) > 1:
      low, high = others[0], others[-1]
      if min(abs(far - low), abs(far - high)) > _FAR * (high - low):
        logging.warning(
          "the value %g (%d of %d rows) is far from all others (%g to %g), %s; if it stands for a missing one, leave"
          " the rows out",
          far,
          values.count(far),
          len(values),
          low,
          high,
          path,
        )


def _present(text: str, place: str) -> str:
  label = text.strip()
  if not label:
    raise UserError(f"no label, {place}; every row needs one")
  control = _CONTROL.search(label)
  if control:
    raise UserError(f"the control character {control[0]!r} in a label, {place}; correct the line")
  return label
