"""Cuts sequences that are longer than a model can read into overlapping windows, and joins what is said of these.

Each window has as many symbols as the model reads. A position is decided by the window in which it has most context:
the border between two windows is the middle of what they share.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int32

from discipline_jax.errors import UserError
from discipline_jax.tasks.examples import Example

# (label, symbols of the window, symbols that the window decides) -> the label of the window
LabelOf = Callable[[Any, slice, slice], Any]


@dataclasses.dataclass(frozen=True)
class Windows:
  """Says which windows belong to which sequence. The windows of a sequence follow each other.

  Attributes:
    owners: number of the sequence of each window.
    decided: the first symbol that each window decides, and the end of these symbols, counted within the window.
  """

  owners: Int32[np.ndarray, " windows"]
  decided: Int32[np.ndarray, "windows 2"]

  @property
  def firsts(self) -> Int[np.ndarray, " sequences"]:
    """The number of the first window of each sequence."""
    return first_rows(self.owners)

  def of(self, sequences: Int[np.ndarray, " some"]) -> Int[np.ndarray, " windows"]:
    """Returns the numbers of all windows of some sequences, in the order of these."""
    firsts = self.firsts
    sizes = np.diff(np.append(firsts, len(self.owners)))[sequences]
    inner = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(firsts[sequences], sizes) + inner

  def some(self, windows: Int[np.ndarray, " some"]) -> "Windows":
    """Returns some of the windows; those of a sequence must follow each other."""
    return Windows(self.owners[windows], self.decided[windows])

  @property
  def describe(self) -> str:
    """A few words for a plan."""
    sizes = np.bincount(self.owners)
    return f"{len(sizes)} sequences in {len(self.owners)} windows; {(sizes > 1).sum()} are longer than task.max_length"


def cut_windows(
  examples: Sequence[Example], room: int, stride: int | None, label_of: LabelOf
) -> tuple[list[Example], Windows]:
  """Returns the windows of sequences; one that fits is its own window.

  Args:
    examples: sequences of symbols.
    room: most symbols of a window.
    stride: most symbols from the start of a window to that of the next one; None: half of `room`.
    label_of: makes the label of a window; not called for sequences that fit.

  Raises:
    UserError: a stride that would leave symbols between windows unread.
  """
  stride = max(1, room // 2) if stride is None else stride
  if not 1 <= stride <= room:
    raise UserError(
      f"task.stride = {stride} is not from 1 to the {room} symbols of a window; set --config.task.stride"
    )
  rows: list[Example] = []
  owners: list[int] = []
  decided: list[tuple[int, int]] = []
  for owner, example in enumerate(examples):
    length = len(example.sequence)
    starts, borders = window_borders(length, room, stride)
    for start, first, end in zip(starts, borders[:-1], borders[1:], strict=True):
      row = example
      if len(starts) > 1:
        own, inner = slice(start, start + room), slice(first, end)
        label = None if example.label is None else label_of(example.label, own, inner)
        row = dataclasses.replace(example, sequence=example.sequence[own], label=label)
      rows.append(row)
      owners.append(owner)
      decided.append((first - start, end - start))
  return rows, Windows(np.array(owners, np.int32), np.array(decided, np.int32).reshape(-1, 2))


def window_borders(length: int, room: int, stride: int) -> tuple[list[int], list[int]]:
  """Returns where windows begin, and the borders between the symbols that they decide, from 0 to `length`.

  As many windows as needed are spread evenly, so that neighbours begin at most `stride` symbols apart.
  """
  if length <= room:
    return [0], [0, length]
  number = -(-(length - room) // stride) + 1
  starts = [i * (length - room) // (number - 1) for i in range(number)]
  # Where both windows have as much context, the first one decides.
  middles = [(left + room - 1 + right) // 2 + 1 for left, right in itertools.pairwise(starts)]
  return starts, [0, *middles, length]


def first_rows(owners: Int[np.ndarray, " rows"]) -> Int[np.ndarray, " sequences"]:
  """Returns the number of the first row of each sequence, whose rows follow each other."""
  return np.flatnonzero(np.append(True, owners[1:] != owners[:-1])[: len(owners)])


def mean_over_windows(
  outputs: Float[np.ndarray, "windows ..."], owners: Int[np.ndarray, " windows"]
) -> Float[np.ndarray, "sequences ..."]:
  """Returns the mean of the outputs of each sequence's windows."""
  firsts = first_rows(owners)
  sizes = np.diff(np.append(firsts, len(owners))).astype(outputs.dtype)
  sums = np.add.reduceat(outputs, firsts, axis=0)
  return sums / sizes.reshape(-1, *[1] * (outputs.ndim - 1))
