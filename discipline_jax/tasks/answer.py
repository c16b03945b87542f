"""The interface of an answer: everything about a task that depends on what it asks for.

An answer knows how a label is read, the arrays to train on, the head, the loss, the scores, the lines that `predict`
writes, and what `task.json` keeps of it. The kinds of answers are in `tasks.answers`.
"""

import abc
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Bool, Float, Int32

from discipline_jax.errors import UserError
from discipline_jax.metrics import score, undefined
from discipline_jax.models.heads import Head, rescaled
from discipline_jax.tasks.class_names import missing
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.windows import Windows

# The arrays that a loss and a score compare the outputs with, by name; the first axis runs over samples.
Targets = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Measured:
  """The measurements of one replica on one part of the data.

  Attributes:
    loss: mean over the samples.
    score: in the task's metric, times 100.
    collapsed: whether the model predicts (nearly) the same for all samples.
    labels, predicted: what was scored: the true and the predicted class or value of each sample or, if samples vote, of
      each group. Of positions, [sequences, symbols], whose first one is a sequence's first symbol, with -1 or NaN where
      none is scored; of several labels, 0 or 1 for each, and the logits.
    errors: further losses by name.
    measures: further scores, for result.json.
  """

  loss: float
  score: float
  collapsed: bool
  labels: np.ndarray
  predicted: np.ndarray
  errors: Mapping[str, float] = dataclasses.field(default_factory=dict)
  measures: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Predictions:
  """The outputs of one replica for one part of the data, and what was scored.

  Attributes:
    samples: number of each sample in the task.
    outputs: outputs [samples, ...], not standardised.
    units: number of each sample that was scored or, if samples vote, of each group; as long as `measured.labels`.
    measured: the scores.
  """

  samples: Int32[np.ndarray, " samples"]
  outputs: np.ndarray
  units: np.ndarray
  measured: Measured


@dataclasses.dataclass(frozen=True)
class Layout:
  """Where the symbols of samples stand in their rows, for answers about each symbol.

  Attributes:
    lengths: length of each sample in tokens, special tokens counted.
    start: position of the first symbol: 1 behind a [CLS], else 0.
    windows: which samples are windows of one sequence; None if none are.
  """

  lengths: Int32[np.ndarray, " samples"]
  start: int
  windows: Windows | None = None

  def of_symbols(self, outputs: np.ndarray) -> Iterator[np.ndarray]:
    """Yields, for each sequence, the outputs [symbols, ...] of its symbols, each from the window that decides it."""
    if self.windows is None:
      for row, length in zip(outputs, self.lengths, strict=True):
        yield row[self.start : length - self.start]
      return
    places = self.windows.decided + self.start
    ends = [*self.windows.firsts[1:].tolist(), len(outputs)]
    for first, end in zip(self.windows.firsts.tolist(), ends, strict=True):
      yield np.concatenate([outputs[row][slice(*places[row])] for row in range(first, end)])

  def by_symbol(self, values: np.ndarray, fill: float) -> np.ndarray:
    """Returns the values [sequences, symbols, ...] of each sequence, from its first symbol on.

    Args:
      values: values [samples, tokens, ...].
      fill: what stands behind the end of shorter sequences.
    """
    rows = list(self.of_symbols(values))
    shape = (len(rows), max(map(len, rows)), *values.shape[2:])
    found: np.ndarray = np.full(shape, fill, values.dtype)
    for row, own in zip(found, rows, strict=True):
      row[: len(own)] = own
    return found


class Answer(abc.ABC):
  """One kind of answer, with its settings.

  Attributes:
    kind: its name, the `task.kind` of a config.
    metrics: the metrics that can score it; the first one is the default.
    metric: the chosen one.
    labels: names of the classes; empty if there are none.
    form: how a table writes a label: a `word`; a `list`, which JSON may hold as one; or a list over `positions`, which
      FASTA has behind the sequence.
    of_positions: whether there is an answer for each symbol of a sample.
    problem_type: what transformers calls a classifier of rows with this loss; None: by its number of outputs.
  """

  kind: ClassVar[str]
  metrics: ClassVar[tuple[str, ...]]
  form: ClassVar[str] = "word"
  of_positions: ClassVar[bool] = False
  problem_type: ClassVar[str | None] = None
  metric: str
  labels: tuple[str, ...]

  @classmethod
  def choose_metric(cls, metric: str | None) -> str:
    """Returns the metric, by default the first one; raises UserError if it cannot score this kind of answer."""
    if metric is None:
      return cls.metrics[0]
    if metric not in cls.metrics:
      raise UserError(f"task.metric = {metric!r} is not one of: {', '.join(cls.metrics)}")
    return metric

  @classmethod
  def refused(cls, labels: Iterable[str | None]) -> Mapping[str, str]:
    """Returns the labels of a column that cannot be used as labels, each with the reason."""
    return missing(labels)

  @classmethod
  def keys(cls, label: Any) -> Collection[Hashable]:
    """Returns the classes of a label that training must have, too; names of one class have one key."""
    del label
    return ()

  @classmethod
  @abc.abstractmethod
  def parse(cls, text: Any, place: str) -> Any:
    """Reads the label of a row of a table; raises UserError, with `place`, if it is not a label.

    Unless `form` is `word`, the label may be a list, too.
    """

  @classmethod
  def aligned(cls, label: Any, symbols: Sequence[str], place: str, ignored: str | None) -> Any:
    """Returns a parsed label as it belongs to the symbols of its sample.

    Args:
      label: what `parse` returned.
      symbols: symbols of the sample.
      place: `file:line`, for messages.
      ignored: the label of positions that are not scored.

    Raises:
      UserError: a label that does not fit the symbols.
    """
    del symbols, place, ignored
    return label

  @classmethod
  @abc.abstractmethod
  def fit(cls, labels: Mapping[str, Sequence[Any]], metric: str, path: str) -> "Answer":
    """Makes the answer for the parsed labels of a table.

    Args:
      labels: by part; `train`, or else `all`, is the part that a model is trained on.
      metric: one of `metrics`.
      path: path of the table, for messages.

    Raises:
      UserError: labels or a metric that do not go together.
    """

  @abc.abstractmethod
  def encode(self, label: Any) -> Any:
    """Turns a parsed label into `Example.label`."""

  @property
  @abc.abstractmethod
  def head(self) -> Head:
    """The head that a model needs to give the answer."""

  @abc.abstractmethod
  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    """Returns the arrays that the samples are trained on and scored with."""

  def window(self, label: Any, symbols: slice, decided: slice) -> Any:
    """Returns the `Example.label` of a window of a sequence: by default that of the whole.

    Args:
      label: of the sequence.
      symbols: those of the window.
      decided: those for which this window is to answer, and no other one.
    """
    del symbols, decided
    return label

  def strata(self, targets: Targets) -> np.ndarray | None:
    """Returns a number for each sample; each random part gets the same share of every number. None: no such numbers."""
    del targets
    return None

  def scale(self, targets: Targets) -> dict[str, np.float32]:
    """Returns the `mean` and `std` of what a regressor is trained on; nothing if the answer has no values.

    Args:
      targets: targets of the training part.

    Raises:
      UserError: values that cannot be standardised.
    """
    del targets
    return {}

  def restored(self, params: dict, scale: Mapping[str, Any]) -> dict:
    """Returns the parameters of the model whose outputs are not standardised.

    Args:
      params: parameters of the trained model, with or without an axis over replicas.
      scale: what `scale` returned, with the same axis; empty if values were not standardised.
    """
    return rescaled(params, scale["std"], scale["mean"]) if scale else params

  def members(self, targets: Targets) -> Bool[np.ndarray, "samples classes"] | None:
    """Returns which classes each sample has, if it may have several of them."""
    del targets
    return None

  def classes(self, targets: Targets) -> np.ndarray | None:
    """Returns the number of each sample's class, if samples have one."""
    del targets
    return None

  @abc.abstractmethod
  def losses(self, outputs: Float[Array, "rows ..."], targets: Targets) -> Float[Array, " rows"]:
    """Returns the loss of each row, summed over everything in the row that is scored.

    Args:
      outputs: outputs of the model. If they have an axis of tokens, they may have fewer positions than the targets:
        those up to the length that the batch needs.
      targets: targets of the rows; also the arrays of `scale`, if the model gives standardised values.
    """

  def counts(self, targets: Targets) -> Float[Array, "*batch"]:
    """Returns the number of scored items in each row, by default one.

    The loss of an update is the sum of `losses` divided by the sum of these.

    Args:
      targets: targets of rows [rows, ...], or of rows in parts [parts, rows, ...].
    """
    return jnp.ones(next(iter(targets.values())).shape, jnp.float32)

  @abc.abstractmethod
  def measure(
    self, outputs: np.ndarray, targets: Targets, groups: Int32[np.ndarray, " samples"]
  ) -> Measured:
    """Scores the outputs of some samples.

    Args:
      outputs: outputs [samples, ...], not standardised.
      targets: targets of the samples; also the arrays of `scale`, if the loss is to be computed on standardised values.
      groups: number of the group of each sample.
    """

  def units(
    self, samples: Int32[np.ndarray, " samples"], groups: Int32[np.ndarray, " samples"]
  ) -> np.ndarray:
    """Returns the number of each unit that `measure` scores, in its order: by default of each sample.

    Args:
      samples: numbers of the samples.
      groups: see `measure`.
    """
    del groups
    return samples

  @property
  @abc.abstractmethod
  def columns(self) -> list[str]:
    """The names of the columns that `predict` writes after the line number."""

  @abc.abstractmethod
  def rows(self, outputs: np.ndarray, layout: Layout) -> Iterator[list[list[Any]]]:
    """Yields for each sample the lines that `predict` writes, each with a value for every one of `columns`."""

  def combined(
    self, outputs: Float[np.ndarray, "replicas samples ..."]
  ) -> tuple[np.ndarray, Float[np.ndarray, " samples"]] | None:
    """Returns the outputs of several replicas together, and how far these are apart for each sample.

    `rows` makes the mean of their probabilities or values of the first; the second is the standard deviation of what is
    predicted. None if the kind of answer has no such mean.
    """
    del outputs
    return None

  @abc.abstractmethod
  def describe(self, targets: Targets) -> dict[str, str]:
    """Returns what a plan says of the labels: a name and a line."""

  @property
  @abc.abstractmethod
  def summary(self) -> str:
    """A few words for a plan: `3 classes`."""

  def to_json(self) -> dict[str, Any]:
    """Returns the fields for `from_json`."""
    assert dataclasses.is_dataclass(self)
    return {"kind": self.kind, **dataclasses.asdict(self)}


def measured_by(
  metric: str, losses: np.ndarray, collapsed: bool, labels: np.ndarray, predicted: np.ndarray
) -> Measured:
  """Returns measurements with the score of `metric`; a log says if it has no value.

  Args:
    metric: see `metrics.score`.
    losses: one for each sample, or for each scored position.
    collapsed, labels, predicted: see `Measured`.
  """
  constant = undefined(metric, labels, predicted)
  if constant is not None:
    logging.warning("%s is 0 because the %s are all the same", metric, constant)
  return Measured(
    float(losses.mean()), score(metric, labels, predicted), collapsed, labels, predicted
  )
