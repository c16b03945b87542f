"""Tests how outputs of windows become the scores and the predictions of whole sequences, by hand."""

import math

import numpy as np
import pytest

from discipline_jax.programs.evaluation import score_outputs
from discipline_jax.report.predictions import Scored, paired
from discipline_jax.tasks.answers import Value
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.features import Features
from discipline_jax.tasks.position_values import PositionValues
from discipline_jax.tasks.tags import Tags
from discipline_jax.tasks.windows import Windows

# Sequence 0 has six symbols in two windows of four, which decide three symbols each; 1 and 2 have two symbols and one.
WINDOWS = Windows(
  np.array([0, 0, 1, 2], np.int32), np.array([[0, 3], [1, 4], [0, 2], [0, 1]], np.int32)
)
LENGTHS = np.array([6, 6, 4, 3], np.int32)  # with [CLS] and [SEP]


def features_of(labels, lengths, windows=None):
  count = len(lengths)
  return Features(
    np.full((count, 8), 3, np.uint8),
    None,
    np.array(lengths, np.int32),
    np.arange(count, dtype=np.int32),
    np.arange(4, dtype=np.int32),
    {"all": count if windows is None else 3},
    {"labels": labels},
    windows,
  )


def task_of(answer):
  return Task("some", None, answer, None, read=dict)


def at(places, width, values, fill):
  row = np.full(width, fill)
  row[list(places)] = values
  return row


# (answer, labels of the three sequences, what is predicted for each symbol, what marks a position without a label)
TAGS = (
  Tags(("a", "b", "c")),
  [[0, 1, -1, 2, 2, 0], [1, 2], [0]],
  [[0, 1, 2, 0, 2, 0], [1, 0], [0]],
  -1,
)
VALUES = (
  PositionValues(),
  [[0.5, 1, math.nan, 2, 2, 0], [1, 3], [4]],
  [[0, 1, 2, 0, 2, 0], [1, 0], [0]],
  math.nan,
)


def outputs_for(answer, predicted):
  """Returns the outputs that have these predictions."""
  predicted = np.array(predicted)
  if isinstance(answer, Tags):
    return np.eye(3, dtype=np.float32)[predicted]
  return predicted[..., None].astype(np.float32)


@pytest.mark.parametrize("case", [TAGS, VALUES], ids=["tags", "values"])
def test_symbols_stand_at_their_numbers_with_windows_and_without(case):
  answer, labels, predicted, none = case
  dtype = answer.label_dtype()
  whole = features_of(
    np.array([at(range(1, len(own) + 1), 8, own, none) for own in labels], dtype), [8, 4, 3]
  )
  rows = np.array([at(range(1, len(own) + 1), 8, own, 0) for own in predicted]).astype(int)
  samples = np.array([2, 0, 1], np.int32)
  plain = score_outputs(task_of(answer), whole, samples, outputs_for(answer, rows)[samples], {})

  # Window 0 has the symbols 0 to 3, window 1 those from 2 to 5. What a window does not decide is predicted wrongly.
  own_labels = [
    at((1, 2, 3), 6, labels[0][:3], none),
    at((2, 3, 4), 6, labels[0][3:], none),
    at((1, 2), 6, labels[1], none),
    at((1,), 6, labels[2], none),
  ]
  own_rows = [
    [2, *predicted[0][:3], 1, 1],
    [2, 1, *predicted[0][3:], 1],
    [2, *predicted[1], 2, 2, 2],
    [1, *predicted[2], 2, 2, 2, 2],
  ]
  cut = features_of(np.array(own_labels, dtype), LENGTHS, WINDOWS)
  windows = np.array([3, 0, 1, 2], np.int32)
  outputs = outputs_for(answer, [row[:6] for row in own_rows])[windows]
  read = score_outputs(task_of(answer), cut, windows, outputs, {})

  assert read.samples.tolist() == windows.tolist()
  np.testing.assert_array_equal(read.outputs, outputs)
  for one in (plain, read):
    assert one.units.tolist() == [2, 0, 1]
    expected = [at(range(len(labels[i])), 6, labels[i], none) for i in (2, 0, 1)]
    np.testing.assert_array_equal(one.measured.labels, np.array(expected, dtype))
    guesses = [at(range(len(labels[i])), 6, predicted[i], none) for i in (2, 0, 1)]
    guesses = np.where(np.array(expected) == np.array(expected), guesses, none)
    guesses = np.where(np.array(expected) == -1, none, guesses)
    np.testing.assert_array_equal(one.measured.predicted, guesses.astype(dtype))
  assert read.measured.score == plain.measured.score
  assert read.measured.loss == plain.measured.loss


def test_the_mean_of_windows_is_scored_for_a_sequence():
  cut = features_of(np.array([1, 1, 2, 3], np.float32), LENGTHS, WINDOWS)
  windows = np.array([2, 0, 1], np.int32)
  outputs = np.array([[5], [1], [2]], np.float32)
  found = score_outputs(task_of(Value()), cut, windows, outputs, {})
  assert found.samples.tolist() == found.units.tolist() == [1, 0]
  assert found.outputs.tolist() == [[5], [1.5]]
  assert found.measured.labels.tolist() == [2, 1]


def test_the_first_sequences_have_all_of_their_windows():
  cut = features_of(np.zeros(4), LENGTHS, WINDOWS)
  windows = np.array([2, 0, 1, 3])
  assert [cut.of_first(windows, n).tolist() for n in (1, 2, 3, 9)] == [
    [2],
    [2, 0, 1],
    [2, 0, 1, 3],
    [2, 0, 1, 3],
  ]
  assert cut.num_sequences(windows) == 3
  plain = features_of(np.zeros(4), LENGTHS)
  assert plain.of_first(windows, 2).tolist() == [2, 0]
  assert plain.num_sequences(windows) == 4


@pytest.mark.parametrize(("dtype", "none"), [(np.int8, -1), (np.float32, np.nan)])
def test_runs_of_other_lengths_are_laid_side_by_side(dtype, none):
  """A run that read no symbol behind the third one, where nothing is scored, and one that read five."""
  labels = np.array([[[0, none, 1], [1, 1, none]]], dtype)
  wide = np.concatenate([labels, np.full((1, 2, 2), none, dtype)], axis=2)
  seeds, units = np.array([0]), np.array([[4, 7]])
  ours, theirs = Scored(seeds, units, labels, labels), Scored(seeds, units, wide, wide)
  for one, other in ((ours, theirs), (theirs, ours)):
    own, predicted = paired(one, other)
    np.testing.assert_array_equal(own.labels, wide)
    np.testing.assert_array_equal(predicted, wide)
  wide[0, 0, 4] = 1
  assert paired(ours, theirs) is None
