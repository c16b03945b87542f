"""Samples of a part that training has, too, counted by hand."""

import dataclasses

import numpy as np

from discipline_jax.tasks.features import Features
from discipline_jax.tasks.leakage import Overlap, overlaps
from discipline_jax.tasks.windows import Windows


def features(rows, labels, segments=None):
  symbols = np.array(rows, np.uint8)
  count = len(rows)
  return Features(
    symbols,
    None if segments is None else np.array(segments, np.uint8),
    np.full(count, symbols.shape[1], np.int32),
    np.arange(count, dtype=np.int32),
    np.arange(10, dtype=np.int32),
    {"all": count},
    {"labels": np.array(labels)},
  )


def test_equal_inputs_and_labels_that_contradict():
  """Of four test samples three are in training: one with its label, one with another, one with both labels."""
  own = features([[3], [4], [5], [5], [3], [4], [5], [6]], [0, 0, 0, 1, 0, 1, 1, 1])
  split = {"train": np.arange(4), "validation": np.array([7]), "test": np.arange(4, 8)}
  assert overlaps(own, [split])[0] == {"validation": Overlap(0, 0), "test": Overlap(3, 2)}


def test_pairs_are_equal_if_both_texts_are():
  own = features([[3, 4, 3], [3, 4, 3]], [0, 0], [[0, 0, 1], [0, 1, 1]])
  split = {"train": np.array([0]), "validation": np.array([1])}
  assert overlaps(own, [split])[0] == {"validation": Overlap(0, 0)}
  assert overlaps(features(own.symbols, [0, 0]), [split])[0] == {"validation": Overlap(1, 0)}


def test_values_contradict_if_they_are_not_equal():
  own = features([[3], [3], [3]], [0.5, 0.5, 0.25])
  split = {"train": np.array([0]), "validation": np.array([1]), "test": np.array([2])}
  assert overlaps(own, [split])[0] == {"validation": Overlap(1, 0), "test": Overlap(1, 1)}


def test_a_pair_in_the_other_order_is_the_same_pair():
  """AB with C is C with AB and not A with BC; A with A is itself."""
  cls, sep = 1, 2
  rows = [
    [cls, 3, 4, sep, 5, sep],
    [cls, 5, sep, 3, 4, sep],
    [cls, 3, sep, 4, 5, sep],
    [cls, 5, sep, 4, 3, sep],
    [cls, 4, 3, sep, 5, sep],
  ]
  segments = [[0, 0, 0, 0, 1, 1], *[[0, 0, 0, 1, 1, 1]] * 3, [0, 0, 0, 0, 1, 1]]
  own = features(rows, [0, 1, 0, 0, 0], segments)
  split = {"train": np.array([0]), "validation": np.array([1]), "test": np.array([2, 3, 4])}
  assert overlaps(own, [split], pairs=True)[0] == {
    "validation": Overlap(1, 1),
    "test": Overlap(0, 0),
  }
  assert overlaps(own, [split])[0]["validation"] == Overlap(0, 0)


def test_sequences_in_windows_are_counted_whole():
  """Sequence 1 is sequence 0, with another label in its second window; 2 shares one window with it alone."""
  rows = [[3, 4], [5, 6], [3, 4], [5, 6], [3, 4], [5, 3]]
  labels = [[0, 1], [1, 1], [0, 1], [1, 0], [0, 1], [1, 1]]
  own = features(rows, labels)
  windows = Windows(np.array([0, 0, 1, 1, 2, 2], np.int32), np.array([[0, 2]] * 6, np.int32))
  own = dataclasses.replace(own, windows=windows)
  split = {"train": np.array([0, 1]), "validation": np.array([2, 3]), "test": np.array([4, 5])}
  assert overlaps(own, [split])[0] == {"validation": Overlap(1, 1), "test": Overlap(0, 0)}
