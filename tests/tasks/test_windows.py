"""Tests how long sequences are cut into windows, and that each position is decided once, where it has most context."""

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.groups import join_groups
from discipline_jax.tasks.tags import Tags
from discipline_jax.tasks.windows import Windows, cut_windows, mean_over_windows, window_borders

TAGS = Tags(("a", "b"))


def context(position, start, room, length):
  """Returns the symbols on the side that has fewer; the ends of the sequence lack none."""
  left = np.inf if start == 0 else position - start
  right = np.inf if start + room >= length else start + room - 1 - position
  return min(left, right)


@pytest.mark.parametrize(
  ("length", "room", "stride"),
  [(10, 10, 5), (11, 10, 5), (2046, 510, 255), (2046, 510, 100), (37, 8, 8), (37, 8, 1), (9, 2, 1), (5, 1, 1)],
)  # fmt: skip
def test_each_position_is_decided_where_it_has_most_context(length, room, stride):
  starts, borders = window_borders(length, room, stride)
  assert starts[0] == borders[0] == 0
  assert borders[-1] == length
  assert borders == sorted(set(borders))
  if length > room:
    assert starts[-1] == length - room
    assert max(np.diff(starts)) <= stride
  for position in range(length):
    own = np.searchsorted(borders, position, side="right") - 1
    assert starts[own] <= position < starts[own] + room
    ours = context(position, starts[own], room, length)
    assert all(
      ours >= context(position, start, room, length)
      for start in starts
      if start <= position < start + room
    )


def test_windows_of_sequences():
  examples = [
    Example("ABCDEFG", np.arange(7, dtype=np.int8) % 2),
    Example("XYZ", np.array([0, 0, 1], np.int8)),
  ]
  rows, windows = cut_windows(examples, 4, 3, TAGS.window)
  assert [row.sequence for row in rows] == ["ABCD", "DEFG", "XYZ"]
  # The position in both, D, is decided by the first one.
  assert [row.label.tolist() for row in rows] == [[0, 1, 0, 1], [-1, 0, 1, 0], [0, 0, 1]]
  assert windows.owners.tolist() == [0, 0, 1]
  assert windows.decided.tolist() == [[0, 4], [1, 4], [0, 3]]
  assert windows.firsts.tolist() == [0, 2]
  assert windows.of(np.array([1, 0])).tolist() == [2, 0, 1]


def test_the_outputs_of_symbols_come_from_the_window_that_decides():
  """The output of a token is the number of its window and its place there; each row begins with [CLS]."""
  windows = Windows(np.array([0, 0, 1], np.int32), np.array([[0, 4], [1, 4], [0, 3]], np.int32))
  outputs = np.stack(np.meshgrid(range(3), range(6), indexing="ij"), -1).astype(np.float32)
  layout = Layout(np.array([6, 6, 5], np.int32), 1, windows)
  first, second = layout.of_symbols(outputs)
  assert first.tolist() == [[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4]]
  assert second.tolist() == [[2, 1], [2, 2], [2, 3]]


def test_a_class_is_that_of_the_whole_sequence_in_each_window():
  answer = Class(("no", "yes"))
  rows, _ = cut_windows([Example("ABCDE", 1)], 3, None, answer.window)
  assert [(row.sequence, row.label) for row in rows] == [("ABC", 1), ("BCD", 1), ("CDE", 1)]


def test_without_labels():
  rows, _ = cut_windows([Example(np.arange(5), None)], 3, 2, TAGS.window)
  assert [row.sequence.tolist() for row in rows] == [[0, 1, 2], [2, 3, 4]]
  assert rows[0].label is None


def test_means():
  outputs = np.array([[1, 5], [3, 7], [10, 20]], np.float32)
  np.testing.assert_array_equal(mean_over_windows(outputs, np.array([4, 4, 2])), [[2, 6], [10, 20]])


@pytest.mark.parametrize("stride", [0, -1, 4])
def test_a_stride_that_leaves_symbols_out_is_refused(stride):
  with pytest.raises(UserError, match="task.stride"):
    cut_windows([Example("ABCDE", None)], 3, stride, TAGS.window)


def test_groups_of_windows_become_groups_of_sequences():
  """Sequences 0 and 2 have windows of group 5; sequence 1 has none with others."""
  groups = join_groups(np.array([4, 5, 0, 5]), np.array([0, 0, 1, 2]))
  assert groups[0] == groups[2] != groups[1]
