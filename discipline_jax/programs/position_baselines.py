"""Predicts each position without a network: one answer for all, each symbol's own, and a linear model of what is near.

They take plain arrays: symbols [sequences, symbols], numbered from 0, below 0 where there is none, and labels of the
same shape, see `tasks.positions`.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Num

from discipline_jax.metrics import is_scored, score
from discipline_jax.programs.linear_models import Outputs, linear_models
from discipline_jax.tasks.positions import PositionAnswer

_BLOCK = 100_000  # places whose inputs are made together, which bounds memory


@dataclasses.dataclass(frozen=True)
class Around:
  """Says what the linear model reads around a position, and how many positions it learns from.

  Attributes:
    reach: it reads what begins at this many places before and behind the position, and at those between.
    k: so many symbols in a row are read as one.
    most: whole sequences of training, in random order, are taken until there are so many scored positions.
  """

  reach: int = 10
  k: int = 1
  most: int = 200_000


@dataclasses.dataclass(frozen=True)
class Fitted:
  """Holds the predictions of a model.

  Attributes:
    setting: such as `always H`.
    predicted: for each part but training, the predictions [sequences, symbols], -1 or NaN where none is scored.
  """

  setting: str
  predicted: Mapping[str, np.ndarray]


def fit_positions(
  answer: PositionAnswer,
  symbols: Int[np.ndarray, "sequences symbols"],
  labels: Num[np.ndarray, "sequences symbols"],
  split: Mapping[str, Int[np.ndarray, " some"]],
  size: int,
  around: Around,
) -> dict[str, Fitted]:
  """Fits the baselines to the training part.

  `constant` gives all positions the most frequent tag of training (the second one, if the metric is its F1) or the mean
  value, `symbol` each symbol its own most frequent tag or mean value. `linear` is logistic or ridge regression on what
  stands at each place around; its penalty is the one that scores best on validation.

  Args:
    answer: of the task.
    symbols, labels: see the module.
    split: numbers of the sequences of each part.
    size: how many symbols there are.
    around: what the linear model reads.

  Raises:
    UserError: a training part with one tag only.
  """
  train = split["train"]
  chosen = is_scored(labels[train])
  constant, table = _tables(answer, symbols[train][chosen], labels[train][chosen], size)
  name = answer.labels[int(constant)] if answer.labels else f"{constant:.4g}, the mean"
  own = "most frequent tag" if answer.labels else "mean"
  others = [part for part in split if part != "train"]

  def of_table(values: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    for part in others:
      truth = labels[split[part]]
      guesses = values[np.maximum(symbols[split[part]], 0)]
      found[part] = np.where(is_scored(truth), guesses, answer.unscored).astype(labels.dtype)
    return found

  return {
    "constant": Fitted(f"always {name}", of_table(np.full(size, constant))),
    "symbol": Fitted(f"each symbol's {own}", of_table(table)),
    "linear": _linear(answer, symbols, labels, split, size, around),
  }


def _tables(
  answer: PositionAnswer, symbols: np.ndarray, labels: np.ndarray, size: int
) -> tuple[Any, np.ndarray]:
  """Returns what is predicted for all positions, and for each symbol; those that training lacks get the former."""
  counts = np.bincount(symbols, minlength=size)
  if answer.labels:
    pairs = np.zeros((size, len(answer.labels)), int)
    np.add.at(pairs, (symbols, labels), 1)
    constant = 1 if answer.metric == "f1" else int(pairs.sum(0).argmax())
    return constant, np.where(counts > 0, pairs.argmax(1), constant)
  mean = labels.mean(dtype=np.float64)
  sums = np.bincount(symbols, labels.astype(np.float64), size)
  return mean, np.where(counts > 0, sums / np.maximum(counts, 1), mean)


def _linear(
  answer: PositionAnswer,
  symbols: np.ndarray,
  labels: np.ndarray,
  split: Mapping[str, np.ndarray],
  size: int,
  around: Around,
) -> Fitted:
  own = _enough(labels, split["train"], around.most)
  chosen = is_scored(labels[own])
  inputs = inputs_around(symbols[own], chosen, size, around)

  def predict(outputs_of: Outputs) -> dict[str, np.ndarray]:
    return {
      part: _predict(answer, outputs_of, symbols[samples], labels[samples], size, around)
      for part, samples in split.items()
      if part != "train"
    }

  models = linear_models(answer, inputs, labels[own][chosen])
  fitted = (Fitted(f"{around.reach} symbols around; {name}", predict(one)) for name, one in models)
  truth = labels[split["validation"]]
  return max(fitted, key=lambda one: score(answer.metric, truth, one.predicted["validation"]))


def _enough(labels: np.ndarray, train: np.ndarray, most: int) -> np.ndarray:
  """Returns training sequences, in random order, that have about `most` scored positions together."""
  order = np.random.default_rng(0).permutation(train)
  sizes = is_scored(labels[order]).sum(1)
  return order[np.cumsum(sizes) - sizes < most]


def inputs_around(
  symbols: Int[np.ndarray, "sequences symbols"],
  chosen: Bool[np.ndarray, "sequences symbols"],
  size: int,
  around: Around,
):
  """Returns a sparse row of SciPy for each chosen position, with a 1 for each k symbols that begin at a place around.

  Args:
    symbols: see the module.
    chosen: the positions, in the order of the rows.
    size: how many symbols there are.
    around: the places.
  """
  from scipy import sparse  # half a second, and only a comparison needs it

  width, whole = symbols.shape[1], max(0, symbols.shape[1] - around.k + 1)
  codes: np.ndarray = np.zeros((len(symbols), whole), np.int64)
  is_whole: np.ndarray = np.ones(codes.shape, bool)
  for i in range(around.k):
    own = symbols[:, i : i + whole]
    codes = codes * size + own
    is_whole &= own >= 0
  ends = ((0, 0), (around.reach, around.reach + width - whole))
  codes = np.pad(np.where(is_whole, codes, -1), ends, constant_values=-1)
  places = 2 * around.reach + 1
  seen = np.lib.stride_tricks.sliding_window_view(codes, places, axis=1)[chosen]
  rows, offsets = np.nonzero(seen >= 0)
  pair = (rows, offsets * size**around.k + seen[rows, offsets])
  ones = np.ones(len(rows), np.float32)
  return sparse.csr_matrix((ones, pair), shape=(len(seen), places * size**around.k))


def _predict(
  answer: PositionAnswer,
  outputs_of: Outputs,
  symbols: np.ndarray,
  labels: np.ndarray,
  size: int,
  around: Around,
) -> np.ndarray:
  """Returns the predictions of a linear model [sequences, symbols]."""
  predicted = np.full(labels.shape, answer.unscored, labels.dtype)
  for rows in _blocks(len(labels), max(1, _BLOCK // labels.shape[1])):
    chosen = is_scored(labels[rows])
    if chosen.any():
      outputs = outputs_of(inputs_around(symbols[rows], chosen, size, around))
      predicted[rows][chosen] = outputs.argmax(-1) if answer.labels else outputs[:, 0]
  return predicted


def _blocks(number: int, step: int) -> Iterator[slice]:
  return (slice(start, start + step) for start in range(0, number, step))
