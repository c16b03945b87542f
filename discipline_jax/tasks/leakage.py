"""Counts the samples that a model is scored on and has seen in training."""

import dataclasses
from collections.abc import Mapping

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


def overlaps(features: Features, split: Split) -> Mapping[str, Overlap]:
  """Returns the overlap of each part with training, as the model sees samples: cut to the longest input."""
  inputs = _numbered(features)
  labels = features.targets["labels"] if features.targets else np.zeros(len(inputs))
  trained: dict[int, set] = {}
  for one, label in zip(inputs[split["train"]], labels[split["train"]], strict=True):
    trained.setdefault(one, set()).add(label)
  found = {}
  for part, samples in split.items():
    if part != "train":
      both = [
        trained[one] - {label}
        for one, label in zip(inputs[samples], labels[samples], strict=True)
        if one in trained
      ]
      found[part] = Overlap(len(both), sum(map(bool, both)))
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
