"""Any number of several labels for each sample, as the places in a cell where a protein is found."""

import dataclasses
import functools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Bool, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.label_metrics import LABEL_METRICS, label_details
from discipline_jax.models.heads import Classifier
from discipline_jax.tasks.answer import Answer, Layout, Measured, Targets, measured_by
from discipline_jax.tasks.class_names import (
  class_key,
  class_name,
  class_names,
  missing,
  present,
  sort_labels,
)
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.positions import read_list
from discipline_jax.tasks.readers.tables import json_text

BETWEEN = ";"  # stands between labels; alone, it says that there is none
_OTHERS = ",|/"  # what may stand between labels by mistake
_LEVEL = 0.01  # standard deviation of logits that are nearly the same for all samples


@dataclasses.dataclass(frozen=True)
class LabelSet(Answer):
  """Any number of several labels for each sample, each decided by itself: those whose logit is above 0.

  Attributes:
    labels: names of the labels, by number.
    metric: one of `label_metrics.LABEL_METRICS`.
  """

  kind = "multilabel"
  metrics = LABEL_METRICS
  form = "list"
  problem_type = "multi_label_classification"
  labels: tuple[str, ...]
  metric: str = LABEL_METRICS[0]

  @classmethod
  def keys(cls, label: Sequence[str]) -> Collection[Hashable]:
    return {class_key(name) for name in label}

  @classmethod
  def parse(cls, text: str | list, place: str) -> tuple[str, ...]:
    """Returns the names that a cell has: `a;b`, also with `;` at the end, or a list; `;` and `[]` are none."""
    if isinstance(text, list):
      return tuple(_name(value, place) for value in text)
    text = present(text, place)
    values = [] if text == "[]" else read_list(text, place)
    if values is None:
      values = text.split(BETWEEN)
      if not values[-1].strip():
        values.pop()
        values = [] if values == [""] else values
    return tuple(_name(value, place) for value in values)

  @classmethod
  def fit(cls, labels: Mapping[str, Sequence[Sequence[str]]], metric: str, path: str) -> "LabelSet":
    found = {name for part in labels.values() for label in part for name in label}
    names = tuple(sort_labels(class_names(found, "labels").values()))
    if len(names) < 2:
      what = f"only one label, {names[0]!r}" if names else "no row has a label"
      raise UserError(
        f"{what}, {path}; task.kind=multilabel needs two or more, parted by {BETWEEN!r}; for one that a row has or has"
        " not, set task.kind=classification"
      )
    _warn_of_joined(names, path)
    return cls(names, metric)

  def encode(self, label: Sequence[str]) -> np.ndarray:
    one = np.zeros(len(self.labels), np.int8)
    one[[self._numbers[class_key(name)] for name in label]] = 1
    return one

  @property
  def head(self) -> Classifier:
    return Classifier(len(self.labels))

  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    del layout  # there is one set for a whole sample
    return {"labels": np.stack([example.label for example in examples])}

  def members(self, targets: Targets) -> Bool[np.ndarray, "samples labels"]:
    return targets["labels"] > 0

  def losses(self, outputs: Float[Array, "rows labels"], targets: Targets) -> Float[Array, " rows"]:
    """Returns the binary cross-entropy of each row, summed over the labels."""
    import optax  # only training needs it

    labels = targets["labels"].astype(jnp.float32)
    return optax.sigmoid_binary_cross_entropy(outputs, labels).sum(1)

  def counts(self, targets: Targets) -> Float[Array, "*batch"]:
    labels = targets["labels"]
    return jnp.full(labels.shape[:-1], labels.shape[-1], jnp.float32)

  def measure(
    self,
    outputs: Float[np.ndarray, "samples labels"],
    targets: Targets,
    groups: Int32[np.ndarray, " samples"],
  ) -> Measured:
    del groups  # each sample is judged alone
    labels, guesses = targets["labels"], outputs > 0
    losses = np.logaddexp(0, outputs) - outputs * labels
    # Average precision does not ask which labels are predicted, but in which order the logits stand.
    collapsed = (
      bool(outputs.std(0).max() < _LEVEL)
      if self.metric == "average_precision"
      else bool((guesses == guesses[:1]).all())
    )
    measured = measured_by(self.metric, losses, collapsed, labels, outputs)
    details = label_details(labels, outputs, self.labels)
    return dataclasses.replace(measured, measures=details)

  @property
  def columns(self) -> list[str]:
    return ["prediction", *(f"p_{label}" for label in self.labels)]

  def rows(
    self, outputs: Float[np.ndarray, "samples labels"], layout: Layout
  ) -> Iterator[list[list[Any]]]:
    del layout
    probabilities = np.exp(-np.logaddexp(0, -outputs))
    for logits, row in zip(outputs, probabilities, strict=True):
      names = [self.labels[number] for number in np.flatnonzero(logits > 0)]
      yield [[BETWEEN.join(names) or BETWEEN, *map(float, row)]]

  def describe(self, targets: Targets) -> dict[str, str]:
    counts = targets["labels"].sum(0, dtype=int)
    none = int((targets["labels"].sum(1) == 0).sum())
    return {
      "labels": ", ".join(map("{} {}".format, self.labels, counts))
      + (f"; {none} samples have none" if none else "")
    }

  @property
  def summary(self) -> str:
    return f"any of {len(self.labels)} labels"

  @functools.cached_property
  def _numbers(self) -> dict[Hashable, int]:
    return {class_key(name): number for number, name in enumerate(self.labels)}


def _warn_of_joined(names: Sequence[str], path: str) -> None:
  """Logs labels that are other labels with a sign between them, which may be several labels."""
  joined = [
    name
    for name in names
    if any(sign in name and {*map(str.strip, name.split(sign))} <= {*names} for sign in _OTHERS)
  ]
  if joined:
    logging.warning(
      "%d labels are made of other labels, such as %r, %s; if they are several labels, write %r between these",
      len(joined),
      joined[0],
      path,
      BETWEEN,
    )


def read_columns(values: Sequence[Any], columns: Sequence[str], place: str) -> list[str]:
  """Returns the names of the columns that hold 1.

  Args:
    values: what a row has in these columns.
    columns: their names, which are labels.
    place: `file:line`, for messages.

  Raises:
    UserError: a value that is neither 0 nor 1.
  """
  names = []
  for value, column in zip(values, columns, strict=True):
    text = json_text(value).strip().lower() if isinstance(value, str | int | float) else ""
    if text not in _BINARY:
      raise UserError(
        f"{str(value)[:40]!r} in column {column!r} is neither 0 nor 1, {place}; correct the line, or name other columns"
        " in task.label_column"
      )
    if _BINARY[text]:
      names.append(column)
  return names


_BINARY = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}


def _name(value: object, place: str) -> str:
  """Returns the name of a label; raises UserError if it is empty, stands for a missing one, or would part labels."""
  if not isinstance(value, str | int | float):
    raise UserError(
      f"{str(value)[:40]!r} in a list of labels is neither text nor a number, {place}; correct the line"
    )
  text = json_text(value).strip()
  if not text or missing([text]) or BETWEEN in text:
    raise UserError(
      f"the name {text[:40]!r} among labels is none, {place}; correct the line (write {BETWEEN!r} alone if there is no"
      " label)"
    )
  return class_name(present(text, place))
