"""Scores samples with several labels, of which each is 0 or 1, on a scale from 0 to 100."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Num

LABEL_METRICS = ("micro_f1", "macro_f1", "average_precision")


def label_scores(
  metric: str,
  labels: Int[np.ndarray, "samples labels"],
  logits: Float[np.ndarray, "samples labels"],
  counts: Num[np.ndarray, "resamples samples"],
) -> Float[np.ndarray, " resamples"]:
  """Returns the scores of resamples of samples with several labels, times 100, as scikit-learn defines them.

  A label that no sample of a resample has counts as 0 in the averages over labels.

  Args:
    metric: one of LABEL_METRICS: F1 over all decisions, or averaged over the labels; average precision, averaged over
      the labels.
    labels: 1 where a sample has a label, else 0.
    logits: those above 0 are predicted.
    counts: how often each sample is in each resample.
  """
  counts = counts.astype(np.float64)
  if metric == "average_precision":
    every = [_average_precision(*one, counts) for one in zip(labels.T, logits.T, strict=True)]
    return 100 * np.mean(every, axis=0)
  guesses = logits > 0
  right, true, guessed = (counts @ one for one in (labels * guesses, labels, guesses))
  if metric == "micro_f1":
    right, true, guessed = (one.sum(1, keepdims=True) for one in (right, true, guessed))
  return 100 * (2 * right / np.maximum(true + guessed, 1)).mean(1)


def label_details(
  labels: Int[np.ndarray, "samples labels"],
  logits: Float[np.ndarray, "samples labels"],
  names: Sequence[str],
) -> dict[str, Any]:
  """Returns all scores of several labels, and for each label its F1 and average precision, times 100.

  Args:
    labels, logits: see `label_scores`.
    names: names of the labels, by number.
  """
  one = np.ones((1, len(labels)))

  def score_of(metric: str, chosen: slice) -> float:
    return float(label_scores(metric, labels[:, chosen], logits[:, chosen], one)[0])

  every = slice(None)
  return {
    **{metric: score_of(metric, every) for metric in LABEL_METRICS},
    "labels": {
      name: {
        "number": int(labels[:, i].sum()),
        "f1": score_of("micro_f1", slice(i, i + 1)),
        "average_precision": score_of("average_precision", slice(i, i + 1)),
      }
      for i, name in enumerate(names)
    },
  }


def _average_precision(labels: np.ndarray, logits: np.ndarray, counts: np.ndarray) -> np.ndarray:
  """Returns the precision at each threshold, weighted by what it adds to the recall, in each resample."""
  order = np.argsort(-logits, kind="stable")
  last = np.flatnonzero(
    np.append(np.diff(logits[order]) != 0, True)
  )  # equal logits are one threshold
  counts = counts[:, order]
  found, taken = (np.cumsum(one, axis=1)[:, last] for one in (counts * labels[order], counts))
  precision = found / np.maximum(taken, 1)
  gains = np.diff(found, axis=1, prepend=0)
  return (gains * precision).sum(1) / np.maximum(found[:, -1], 1)
