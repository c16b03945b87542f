"""Counts the samples that a model is scored on and has seen in training."""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Int32

from discipline_jax.tasks.features import NUM_SPECIAL, PAD, Features
from discipline_jax.tasks.splits import Split
from discipline_jax.tasks.strands import canonical_strand
from discipline_jax.tasks.windows import Windows, first_rows


@dataclasses.dataclass(frozen=True)
class Overlap:
  """The samples of a part that have the same input as a training sample.

  Attributes:
    samples: how many they are.
    contradicting: for how many of them such a training sample has another label.
  """

  samples: int
  contradicting: int


def overlaps(
  features: Features,
  splits: Sequence[Split],
  *,
  pairs: bool = False,
  complement: Int32[np.ndarray, " symbols"] | None = None,
) -> list[Mapping[str, Overlap]]:
  """Returns the overlap of each part of each split with training.

  Inputs are compared as the model sees them: cut to the longest input. Sequences in windows are compared whole.

  Args:
    features: the samples.
    splits: of each replica.
    pairs: whether samples are pairs of sequences, which are equal in either order.
    complement: see `tasks.strands.complements`; if given, a sequence and its reverse complement are equal.
  """
  inputs = _numbered(features, pairs, complement)
  labels = features.targets["labels"] if features.targets else np.zeros(len(features.symbols))
  if labels.ndim > 1:  # of positions, or of several labels: equal ones have one number
    numbers: dict[bytes, int] = {}
    labels = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in labels])
  if features.windows is not None:
    labels = _of_sequences(labels, features.windows)
    owners = features.windows.owners
    splits = [
      {part: owners[own][first_rows(owners[own])] for part, own in split.items()}
      for split in splits
    ]
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


def _numbered(features: Features, pairs: bool, complement: np.ndarray | None) -> np.ndarray:
  """Returns a number for each sample, or sequence in windows; those with equal inputs have equal ones."""
  numbers: dict[tuple[bytes, ...], int] = {}
  segments = features.segments
  keys: Iterable[tuple[bytes, ...]]
  if segments is None:
    whole = _whole(features)
    if complement is not None:
      whole = [canonical_strand(own, complement) for own in whole]
    keys = ((own.tobytes(),) for own in whole)
  elif pairs:
    keys = (
      tuple(sorted(row[(row >= NUM_SPECIAL) & (segment == number)].tobytes() for number in (0, 1)))
      for row, segment in zip(features.symbols, segments, strict=True)
    )
  else:
    keys = (
      (row.tobytes(), segment.tobytes())
      for row, segment in zip(features.symbols, segments, strict=True)
    )
  return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def _whole(features: Features) -> list[np.ndarray]:
  """Returns each sample without padding; of a sequence in windows, each symbol once, and no special ones."""
  rows = [row[row != PAD] for row in features.each_symbol_once()]
  if features.windows is None:
    return rows
  starts = [*features.windows.firsts.tolist(), len(rows)]
  return [np.concatenate(rows[first:end]) for first, end in itertools.pairwise(starts)]


def _of_sequences(values: np.ndarray, windows: Windows) -> np.ndarray:
  """Returns a number for each sequence; those whose windows have equal values have equal ones."""
  numbers: dict[bytes, int] = {}
  own = np.split(values, windows.firsts[1:])
  return np.array([numbers.setdefault(one.tobytes(), len(numbers)) for one in own])
