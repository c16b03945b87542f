"""Scores predictions, on a scale from 0 to 100 as the paper prints them."""

import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Int, Num


def vote(
  classes: Int[np.ndarray, " samples"], groups: Int[np.ndarray, " samples"], how: str
) -> dict[int, int]:
  """Returns the class of each group, decided by its samples in their order.

  Args:
    classes: class of each sample.
    groups: number of the group of each sample.
    how: `majority` (if several classes are equally frequent, the lowest one) or `first`.
  """
  members = {int(group): classes[groups == group] for group in np.unique(groups)}
  if how == "first":
    return {group: int(own[0]) for group, own in members.items()}
  return {group: int(np.bincount(own).argmax()) for group, own in members.items()}


def _accuracy(labels: np.ndarray, predicted: np.ndarray) -> float:
  return float(np.mean(labels == predicted))


def _f1(labels: np.ndarray, predicted: np.ndarray) -> float:
  from sklearn.metrics import f1_score  # takes a second, and most tasks do not need it

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
  """Returns a score times 100: one of CLASS_METRICS (as scikit-learn defines them) or VALUE_METRICS (as SciPy does).

  A correlation with a constant is not defined; it counts as 0.

  Args:
    metric: its name; `f1` is the F1 score of class 1 of two.
    labels: true classes or values.
    predicted: predicted ones.
  """
  if undefined(metric, labels, predicted):
    return 0.0
  function: Callable[[np.ndarray, np.ndarray], float] = (_CLASSES | _VALUES)[metric]
  with warnings.catch_warnings():  # classes that are predicted and never right, and the like
    warnings.simplefilter("ignore")
    return 100 * function(labels, predicted)


def undefined(
  metric: str, labels: Num[np.ndarray, " samples"], predicted: Num[np.ndarray, " samples"]
) -> str | None:
  """Returns which of the two is constant, `predictions` or `labels`, if that leaves the metric without a value."""
  if metric not in ("mcc", *_VALUES):
    return None
  for name, values in (("predictions", predicted), ("labels", labels)):
    if len(values) < 2 or np.all(values == values[0]):
      return name
  return None


def balanced_accuracy(
  labels: Int[np.ndarray, " samples"], predicted: Int[np.ndarray, " samples"]
) -> float:
  """Returns the accuracy within each class that `labels` has, averaged over these classes, times 100."""
  from sklearn.metrics import balanced_accuracy_score

  with warnings.catch_warnings():  # classes that are only predicted
    warnings.simplefilter("ignore")
    return 100 * float(balanced_accuracy_score(labels, predicted))
