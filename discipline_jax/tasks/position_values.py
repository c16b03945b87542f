"""A value for each symbol of a sequence, by least squares, as its flexibility is."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.metrics import VALUE_METRICS, is_scored
from discipline_jax.models.heads import TokenClassifier
from discipline_jax.tasks.answer import Measured, Targets
from discipline_jax.tasks.class_names import missing, present
from discipline_jax.tasks.positions import PositionAnswer, check_length, read_list, widened
from discipline_jax.tasks.values import measured_values, read_value, scale_of, warn_of_far_values

_NOTHING = re.compile(r"(^|,)\s*,")  # two commas, or one before all numbers
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class PositionValues(PositionAnswer):
  """A value for each symbol, NaN where there is none.

  Attributes:
    metric: one of `metrics.VALUE_METRICS`, over all positions.
  """

  kind = "position_regression"
  metrics = VALUE_METRICS
  unscored = math.nan
  text_columns = ("prediction",)
  labels = ()
  metric: str = VALUE_METRICS[0]

  @classmethod
  def refused(cls, labels: Any) -> Mapping[str, str]:
    del labels  # NaN may be the value of a sequence of one symbol
    return {}

  @classmethod
  def parse(cls, text: str | list, place: str) -> tuple[float, ...]:
    """Returns the numbers of a list, or those between blanks or commas; NaN for `nan`, `null` and the like."""
    if isinstance(text, list):
      return tuple(_number(value, place) for value in text)
    values = read_list(text, place)
    if values is None:
      whole = present(text.replace("\n", " ").replace("\t", " "), place)
      if _NOTHING.search(whole):
        raise UserError(f"no number before a comma, {place}; write nan where there is none")
      values = whole.replace(",", " ").split()
    return tuple(_number(value, place) for value in values)

  @classmethod
  def aligned(
    cls, label: tuple[float, ...], symbols: Sequence[str], place: str, ignored: str | None
  ) -> tuple[float, ...]:
    del ignored  # NaN says it
    check_length(label, symbols, place)
    return label

  @classmethod
  def fit(
    cls, labels: Mapping[str, Sequence[Sequence[float]]], metric: str, path: str
  ) -> "PositionValues":
    own = [value for part in labels.values() for one in part for value in one if value == value]
    if not own:
      raise UserError(f"no position has a value, {path}; give some")
    warn_of_far_values(own, path, unit="positions", remedy="write nan, or null in a list, for it")
    return cls(metric)

  def encode(self, label: Sequence[float]) -> Float[np.ndarray, " symbols"]:
    return np.array(label, self.label_dtype())

  @property
  def head(self) -> TokenClassifier:
    return TokenClassifier(1)

  def label_dtype(self) -> type:
    return np.float32

  def scale(self, targets: Targets) -> dict[str, np.float32]:
    labels = targets["labels"]
    return scale_of(labels[is_scored(labels)])

  def losses(
    self, outputs: Float[Array, "rows tokens 1"], targets: Targets
  ) -> Float[Array, " rows"]:
    """Returns the squared error of each row, summed over the positions that are scored."""
    labels = targets["labels"][:, : outputs.shape[1]]
    scored = ~jnp.isnan(labels)
    # Not only the loss, but its gradient too must be without NaN.
    labels = jnp.where(scored, labels, 0)
    if "std" in targets:
      labels = (labels - targets["mean"]) / targets["std"]
    return jnp.where(scored, jnp.square(outputs[..., 0] - labels), 0).sum(1)

  def measure(
    self,
    outputs: Float[np.ndarray, "samples tokens 1"],
    targets: Targets,
    groups: Int32[np.ndarray, " samples"],
  ) -> Measured:
    del groups  # each sequence is a sample
    labels = targets["labels"]
    predicted = widened(outputs[..., 0], labels, self.unscored)
    measured = measured_values(self.metric, labels, predicted, targets)
    return dataclasses.replace(measured, measures={"number": int(is_scored(labels).sum())})

  @property
  def cell_columns(self) -> list[str]:
    return ["prediction"]

  def cells(self, outputs: Float[np.ndarray, "symbols 1"]) -> list[list[Any]]:
    return outputs.tolist()

  def text(self, outputs: Float[np.ndarray, "symbols 1"]) -> list[str]:
    return [" ".join(map("{:.6g}".format, outputs[:, 0]))]

  def describe(self, targets: Targets) -> dict[str, str]:
    labels = targets["labels"]
    low, middle, high = np.quantile(labels[is_scored(labels)], [0, 0.5, 1])
    return {"values": f"{low:g} to {high:g}, median {middle:g}"}

  @property
  def summary(self) -> str:
    return "a value for each symbol"


def _number(value: object, place: str) -> float:
  """Returns an element of a list of numbers; NaN for null and words for a missing number."""
  if type(value) is float and abs(value) <= _LARGEST:  # nearly all of them
    return value
  if value is None:
    return math.nan
  if isinstance(value, bool) or not isinstance(value, str | int | float):
    raise UserError(f"{str(value)[:40]!r} in a list of numbers is none, {place}; correct the line")
  text = str(value).strip()
  return math.nan if text[-1:].isalpha() and missing([text]) else read_value(text, place)
