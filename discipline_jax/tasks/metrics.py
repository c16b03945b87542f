"""Scores of predictions, on a 0-100 scale as the paper prints them."""

from collections.abc import Callable

import numpy as np


def accuracy(labels: np.ndarray, logits: np.ndarray) -> float:
  """Share of rows whose largest logit is the label's. labels [samples], logits [samples, classes]."""
  return 100 * float(np.mean(np.argmax(logits, -1) == labels))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {"accuracy": accuracy}
