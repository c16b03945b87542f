"""Scores of predictions, on a 0-100 scale as the paper prints them."""

import warnings
from collections.abc import Callable

import numpy as np
from absl import logging
from jaxtyping import Float, Int, Num


def predictions(logits: Float[np.ndarray, "samples outputs"], num_classes: int) -> np.ndarray:
  """The class with the largest logit, or the value itself where there are no classes."""
  return logits.argmax(-1) if num_classes else logits[:, 0]


def vote(
  classes: Int[np.ndarray, " samples"], pieces: Int[np.ndarray, " samples"], how: str
) -> dict[int, int]:
  """The class of each piece, from those of its parts in their order.

  Args:
    classes, pieces: of each part.
    how: `majority` (of equals the lowest class) or `first`.
  """
  parts = {int(piece): classes[pieces == piece] for piece in np.unique(pieces)}
  if how == "first":
    return {piece: int(own[0]) for piece, own in parts.items()}
  return {piece: int(np.bincount(own).argmax()) for piece, own in parts.items()}


def _accuracy(labels: np.ndarray, predicted: np.ndarray) -> float:
  return float(np.mean(labels == predicted))


def _f1(labels: np.ndarray, predicted: np.ndarray) -> float:
  from sklearn.metrics import f1_score  # a second, and most tasks do not need it

  return float(f1_score(labels, predicted, zero_division=0))


def _macro_f1(labels: np.ndarray, predicted: np.ndarray) -> float:
  from sklearn.metrics import f1_score

  return float(f1_score(labels, predicted, average="macro", zero_division=0))


def _mcc(labels: np.ndarray, predicted: np.ndarray) -> float:
  from sklearn.metrics import matthews_corrcoef

  return float(matthews_corrcoef(labels, predicted))


def _spearman(labels: np.ndarray, predicted: np.ndarray) -> float:
  from scipy.stats import spearmanr

  return float(spearmanr(labels, predicted).statistic)


def _pearson(labels: np.ndarray, predicted: np.ndarray) -> float:
  from scipy.stats import pearsonr

  return float(pearsonr(labels, predicted).statistic)


_CLASSES = {"accuracy": _accuracy, "f1": _f1, "macro_f1": _macro_f1, "mcc": _mcc}
_VALUES = {"spearman": _spearman, "pearson": _pearson}
CLASS_METRICS, VALUE_METRICS = tuple(_CLASSES), tuple(_VALUES)


def score(
  metric: str, labels: Num[np.ndarray, " samples"], predicted: Num[np.ndarray, " samples"]
) -> float:
  """One of CLASS_METRICS (scikit-learn's definitions) or VALUE_METRICS (SciPy's), times 100.

  A correlation with something constant has no value; it is 0 here, with a warning.

  Args:
    metric: its name; `f1` is that of class 1 of two.
    labels, predicted: classes or values.
  """
  function: Callable[[np.ndarray, np.ndarray], float] = (_CLASSES | _VALUES)[metric]
  if metric in ("mcc", *_VALUES):
    for name, values in (("predictions", predicted), ("labels", labels)):
      if len(values) < 2 or np.all(values == values[0]):
        logging.warning("%s is 0 because the %s are all the same", metric, name)
        return 0.0
  with warnings.catch_warnings():  # classes that are predicted and never right, and the like
    warnings.simplefilter("ignore")
    return 100 * function(labels, predicted)
