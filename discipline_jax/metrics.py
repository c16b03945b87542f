"""Scores predictions, on a scale from 0 to 100 as the paper prints them."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Num

from discipline_jax.correlations import correlations
from discipline_jax.label_metrics import label_scores


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
  metric: str,
  labels: Num[np.ndarray, "samples ..."],
  predicted: Num[np.ndarray, "samples ..."],
) -> float:
  """Returns a score times 100.

  CLASS_METRICS and LABEL_METRICS are as scikit-learn defines them, VALUE_METRICS as SciPy does.

  A correlation with a constant is not defined; it counts as 0.

  Args:
    metric: its name; `f1` is the F1 score of class 1 of two.
    labels: true classes or values. If a sample has several positions, [samples, positions]: -1 or NaN where a position
      is not scored; the score is over all scored positions. If it has several labels, 0 or 1 for each of them.
    predicted: predicted ones; of several labels the logits, so that those above 0 are predicted.
  """
  if has_several_labels(labels, predicted):
    return float(label_scores(metric, labels, predicted, np.ones((1, len(labels))))[0])
  labels, predicted = scored(labels, predicted)
  if undefined(metric, labels, predicted):
    return 0.0
  function: Callable[[np.ndarray, np.ndarray], float] = (_CLASSES | _VALUES)[metric]
  with warnings.catch_warnings():  # classes that are predicted and never right, and the like
    warnings.simplefilter("ignore")
    return 100 * function(labels, predicted)


def has_several_labels(labels: np.ndarray, predicted: np.ndarray) -> bool:
  """Returns whether each sample has several labels, which are 0 or 1, and logits for them."""
  return (
    labels.ndim == 2
    and np.issubdtype(labels.dtype, np.integer)
    and np.issubdtype(predicted.dtype, np.floating)
  )


def scored(labels: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the labels and predictions of all scored positions; of samples without positions, both as they are."""
  if labels.ndim == 1:
    return labels, predicted
  chosen = is_scored(labels)
  return labels[chosen], predicted[chosen]


def is_scored(labels: np.ndarray) -> np.ndarray:
  """Returns which positions are scored: those whose label is not negative, or whose value is not NaN."""
  return ~np.isnan(labels) if np.issubdtype(labels.dtype, np.floating) else labels >= 0


def undefined(
  metric: str,
  labels: Num[np.ndarray, "samples ..."],
  predicted: Num[np.ndarray, "samples ..."],
) -> str | None:
  """Returns which of the two is constant, `predictions` or `labels`, if that leaves the metric without a value."""
  if metric not in ("mcc", *_VALUES):
    return None
  labels, predicted = scored(labels, predicted)
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


def resampled(
  metric: str,
  labels: Num[np.ndarray, "samples ..."],
  predicted: Num[np.ndarray, "samples ..."],
  counts: Num[np.ndarray, "resamples samples"],
) -> Float[np.ndarray, " resamples"]:
  """Returns the scores of resamples, times 100.

  Args:
    metric: as in `score`, which gives the same for the samples repeated as often as `counts` says.
    labels: true classes or values; see `score`.
    predicted: predicted ones.
    counts: how often each sample is in each resample. The positions of a sample are drawn together.
  """
  if has_several_labels(labels, predicted):
    return label_scores(metric, labels, predicted, counts)
  sample_of = np.nonzero(is_scored(labels))[0] if labels.ndim == 2 else None
  labels, predicted = scored(labels, predicted)
  if metric in _CLASSES:
    size = 1 + int(max(1, labels.max(), predicted.max()))
    if sample_of is None:
      kinds, counts = _grouped(labels * size + predicted, counts)
    else:
      kinds, own = np.unique(labels.astype(np.int64) * size + predicted, return_inverse=True)
      table = np.bincount(sample_of * len(kinds) + own, minlength=counts.shape[1] * len(kinds))
      counts = counts.astype(np.float64) @ table.reshape(-1, len(kinds))
    return class_scores(metric, kinds, size, counts)
  if sample_of is None:
    sample_of = np.arange(len(labels))
  return correlations(metric, labels, predicted, sample_of, counts.astype(np.float64))


def class_scores(
  metric: str,
  kinds: Int[np.ndarray, " kinds"],
  size: int,
  counts: Num[np.ndarray, "resamples kinds"],
) -> Float[np.ndarray, " resamples"]:
  """Returns the scores of resamples of classified samples, times 100.

  Samples with the same label and prediction are alike, so only the number of samples of each kind counts.

  Args:
    metric: one of CLASS_METRICS.
    kinds: label * size + predicted class.
    size: above every class.
    counts: how many samples of each kind each resample has.
  """
  of_label, of_prediction = (np.eye(size)[of_kind] for of_kind in divmod(kinds, size))
  right, true, guessed = (
    counts @ of_kind for of_kind in (of_label * of_prediction, of_label, of_prediction)
  )
  total = np.maximum(true.sum(1), 1)  # a resample may have no scored position
  if metric == "accuracy":
    return 100 * right.sum(1) / total
  if metric == "mcc":
    spread = (total**2 - (true**2).sum(1)) * (total**2 - (guessed**2).sum(1))
    product = right.sum(1) * total - (true * guessed).sum(1)
    return 100 * product / np.sqrt(np.where(spread > 0, spread, np.inf))
  f1 = 2 * right / np.maximum(true + guessed, 1)
  return 100 * (
    f1[:, 1] if metric == "f1" else f1.sum(1) / np.maximum((true + guessed > 0).sum(1), 1)
  )


def class_details(
  labels: Int[np.ndarray, " samples"], predicted: Int[np.ndarray, " samples"], names: Sequence[str]
) -> dict[str, Any]:
  """Returns all scores of any number of classes, and for each class its precision, recall and F1, times 100.

  Args:
    labels: true classes.
    predicted: predicted ones.
    names: names of the classes, by number.
  """
  size = len(names)
  counts = np.bincount(labels.astype(np.int64) * size + predicted, minlength=size * size)
  every = (np.arange(size * size), size, counts[None])
  table = counts.reshape(size, size)
  right, true, guessed = table.diagonal(), table.sum(1), table.sum(0)
  shares = {
    "precision": right / np.maximum(guessed, 1),
    "recall": right / np.maximum(true, 1),
    "f1": 2 * right / np.maximum(true + guessed, 1),
  }
  return {
    "number": len(labels),
    **{name: float(class_scores(name, *every)[0]) for name in ("accuracy", "macro_f1", "mcc")},
    "classes": {
      name: {
        "number": int(true[i]),
        **{measure: 100 * float(share[i]) for measure, share in shares.items()},
      }
      for i, name in enumerate(names)
    },
  }


def _grouped(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the distinct values, and how often each is in each resample.

  Sums of neighbours, not a matrix product: for small ones BLAS's threads cost ten times what they do.
  """
  distinct, members = np.unique(values, return_counts=True)
  ordered = counts[:, np.argsort(values, kind="stable")]
  if len(distinct) == len(values):
    return distinct, ordered
  return distinct, np.add.reduceat(ordered, np.cumsum(members) - members, axis=1)
