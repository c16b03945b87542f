"""Fits linear models to what is known of samples, or of positions, each with several penalties."""

import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Num

from discipline_jax.errors import UserError
from discipline_jax.tasks.answer import Answer
from discipline_jax.tasks.label_sets import LabelSet

_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # one over the L2 penalty, from strong to weak
_ITERATIONS = 300
PENALTY = "penalty "  # before the penalty, in the name of a setting

# (inputs [rows, features]) -> outputs [rows, ...] such as a network gives
Outputs = Callable[[Any], np.ndarray]


def linear_models(
  answer: Answer, inputs: Any, labels: Num[np.ndarray, "rows ..."]
) -> Iterator[tuple[str, Outputs]]:
  """Yields the models of each penalty, from strong to weak: the name of its setting, and the function to outputs.

  They are logistic regression for classes, one for each of several labels, and ridge regression for values.

  Args:
    answer: what is predicted.
    inputs: what is known of each row [rows, features], of similar size for all features; may be sparse.
    labels: class, labels or value of each row.

  Raises:
    UserError: a training part with one class or tag only.
  """
  if isinstance(answer, LabelSet):
    yield from _of_labels(inputs, labels)
  elif answer.labels:
    if len(present := np.unique(labels)) == 1:
      what = "tag" if answer.of_positions else "class"
      raise UserError(
        f"the training part has one {what} only, {answer.labels[present[0]]}; give more samples, or a larger"
        " task.train_fraction"
      )
    yield from _of_classes(inputs, labels, len(answer.labels))
  else:
    from sklearn.linear_model import Ridge

    for strength in _STRENGTHS:
      model = Ridge(alpha=1 / strength).fit(inputs, labels)
      yield _setting(strength, True), functools.partial(_values, model)


def _of_classes(
  inputs: Any, labels: Int[np.ndarray, " rows"], number: int
) -> Iterator[tuple[str, Outputs]]:
  model = _logistic()
  for strength in _STRENGTHS:
    converged = _fit(model.set_params(C=strength), inputs, labels)
    # A fit makes new weights, so that the copy keeps its own.
    yield _setting(strength, converged), functools.partial(_classes, copy.copy(model), number)


def _of_labels(
  inputs: Any, labels: Int[np.ndarray, "rows labels"]
) -> Iterator[tuple[str, Outputs]]:
  counts = labels.sum(0, dtype=int)
  varying = np.flatnonzero((counts > 0) & (counts < len(labels)))
  # A label that all rows have, or none, is as likely as if half a row more had it, and half a row had not.
  always = np.log((counts + 0.5) / (len(labels) - counts + 0.5)).astype(np.float32)
  models = {number: _logistic() for number in varying.tolist()}
  for strength in _STRENGTHS:
    converged = [
      _fit(model.set_params(C=strength), inputs, labels[:, number])
      for number, model in models.items()
    ]
    own = {number: copy.copy(model) for number, model in models.items()}
    yield _setting(strength, all(converged)), functools.partial(_logits, own, always)


def _logistic():
  from sklearn.linear_model import LogisticRegression

  return LogisticRegression(max_iter=_ITERATIONS, warm_start=True)


def _fit(model: Any, inputs: Any, labels: np.ndarray) -> bool:
  """Fits a classifier, and returns whether it has converged."""
  from sklearn.exceptions import ConvergenceWarning

  with warnings.catch_warnings():  # the setting says it
    warnings.simplefilter("ignore", ConvergenceWarning)
    model.fit(inputs, labels)
  return int(np.max(model.n_iter_)) < _ITERATIONS


def _setting(strength: float, converged: bool) -> str:
  return f"{PENALTY}{1 / strength:g}" + ("" if converged else " (not converged)")


def _classes(model: Any, number: int, inputs: Any) -> Float[np.ndarray, "rows classes"]:
  """Returns a number for each class, the highest for the predicted one."""
  return np.eye(number, dtype=np.float32)[model.predict(inputs)]


def _logits(models: dict[int, Any], always: np.ndarray, inputs: Any) -> np.ndarray:
  """Returns the logits [rows, labels]."""
  logits = np.tile(always, (inputs.shape[0], 1))
  for number, model in models.items():
    logits[:, number] = model.decision_function(inputs)
  return logits


def _values(model: Any, inputs: Any) -> Float[np.ndarray, "rows 1"]:
  return model.predict(inputs).astype(np.float32)[:, None]
