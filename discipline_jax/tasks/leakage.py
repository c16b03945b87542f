"""Counts the samples that a model is scored on and has seen in training."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from discipline_jax.tasks.features import Features
from discipline_jax.tasks.splits import Split


@dataclasses.dataclass(frozen=True)
class Overlap:
  """The samples of a part that have the same input as a training sample.

  Attributes:
    samples: how many they are.
    contradicting: for how many of them such a training sample has another label.
  """

  samples: int
  contradicting: int


def overlaps(features: Features, splits: Sequence[Split]) -> list[Mapping[str, Overlap]]:
  """Returns the overlap of each part of each split with training.

  Inputs are compared as the model sees them: cut to the longest input.
  """
  inputs = _numbered(features)
  labels = features.targets["labels"] if features.targets else np.zeros(len(inputs))
  if labels.ndim > 1:  # of positions, or of several labels: equal ones have one number
    numbers: dict[bytes, int] = {}
    labels = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in labels])
  return [_of_split(inputs, labels, split) for split in splits]


def _of_split(inputs: np.ndarray, labels: np.ndarray, split: Split) -> Mapping[str, Overlap]:
  train = split["train"][np.argsort(inputs[split["train"]], kind="stable")]
  known, starts = np.unique(inputs[train], return_index=True)
  lowest, highest = (limit.reduceat(labels[train], starts) for limit in (np.minimum, np.maximum))
  found = {}
  for part, samples in split.items():
    if part != "train":
      own = samples[np.isin(inputs[samples], known)]
      places = np.searchsorted(known, inputs[own])
      others = (lowest[places] != labels[own]) | (highest[places] != labels[own])
      found[part] = Overlap(len(own), int(others.sum()))
  return found


def _numbered(features: Features) -> np.ndarray:
  """Returns a number for each sample; samples with equal inputs have equal ones."""
  numbers: dict[bytes, int] = {}
  segments = features.segments
  return np.array(
    [
      numbers.setdefault(
        row.tobytes() + (b"" if segments is None else segments[i].tobytes()), len(numbers)
      )
      for i, row in enumerate(features.symbols)
    ]
  )
