"""A value for each sample, by least squares, and what values of any kind of answer share."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.metrics import VALUE_METRICS, scored
from discipline_jax.models.heads import Classifier
from discipline_jax.tasks.answer import Answer, Layout, Measured, Targets, measured_by
from discipline_jax.tasks.class_names import present
from discipline_jax.tasks.examples import Example

# Times the largest value: single precision has about 7 digits, and at least 3 must be left for the deviations.
_SMALLEST_SPREAD = 1e-4
_LARGEST_VALUE = 1e18  # the square of a larger number does not fit into single precision
_FAR = 10  # times the range of all other values


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
    return read_value(present(text, place), place)

  @classmethod
  def fit(cls, labels: Mapping[str, Sequence[float]], metric: str, path: str) -> "Value":
    warn_of_far_values([value for part in labels.values() for value in part], path)
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
    return scale_of(targets["labels"])

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
    return measured_values(self.metric, targets["labels"], outputs[:, 0], targets)

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


def read_value(text: str, place: str) -> float:
  """Returns the number that a label is; raises UserError, with `place`, if it is none, or not finite."""
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if not abs(value) <= float(np.finfo(np.float32).max) or "_" in text:  # Python reads 1_000
    point = "write the decimal point as a point, and thousands without a sign; " * ("," in text)
    raise UserError(
      f"the label {text[:40]!r} is not a finite number, {place}; {point}correct the line"
    )
  return value


def scale_of(values: np.ndarray) -> dict[str, np.float32]:
  """Returns the mean and the standard deviation of the values of a training part, see `Answer.scale`."""
  labels = values.astype(np.float64)
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


def measured_values(
  metric: str,
  labels: Float[np.ndarray, "samples ..."],
  predicted: Float[np.ndarray, "samples ..."],
  targets: Targets,
) -> Measured:
  """Returns the measurements of predicted values.

  Args:
    metric: one of `metrics.VALUE_METRICS`.
    labels, predicted: see `metrics.score`.
    targets: if it has `std`, the loss is that of standardised values, and the mean squared error is beside it.
  """
  own, guesses = scored(labels, predicted)
  losses = np.square(guesses - own)
  collapsed = bool(guesses.std() < 0.01 * own.std())
  measured = measured_by(metric, losses, collapsed, labels, predicted)
  if "std" not in targets:
    return measured
  return dataclasses.replace(
    measured,
    loss=measured.loss / float(targets["std"]) ** 2,
    errors={"mean_squared_error": measured.loss},
  )


def warn_of_far_values(
  values: Sequence[float],
  path: str,
  *,
  unit: str = "rows",
  remedy: str = "leave the rows out",
) -> None:
  """Logs a lowest or highest value that is far from all others, as a code for a missing one is.

  Args:
    values: all values.
    path: where they are from, for the message.
    unit: what has a value each.
    remedy: what to do where the value stands for a missing one.
  """
  distinct = sorted(set(values))
  for far, others in ((distinct[-1], distinct[:-1]), (distinct[0], distinct[1:])):
    if len(others) > 1:
      low, high = others[0], others[-1]
      if min(abs(far - low), abs(far - high)) > _FAR * (high - low):
        logging.warning(
          "the value %g (%d of %d %s) is far from all others (%g to %g), %s; if it stands for a missing one, %s",
          far,
          values.count(far),
          len(values),
          unit,
          low,
          high,
          path,
          remedy,
        )
