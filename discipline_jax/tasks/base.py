"""What a task is, and how its samples are split."""

import dataclasses
import math
import pathlib
from collections.abc import Callable, Mapping

import numpy as np

from discipline_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Alphabet:
  """The symbols of a discipline.

  Attributes:
    symbols: in the order of their numbers.
    aliases: other spellings, each read as the symbol it maps to.
  """

  symbols: tuple[str, ...]
  aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def unknown(self, sequence: str) -> str | None:
    """The first character of `sequence` that is neither a symbol nor an alias, or None."""
    known = {*self.symbols, *self.aliases}
    return (
      None
      if known.issuperset(sequence)
      else next(letter for letter in sequence if letter not in known)
    )


@dataclasses.dataclass(frozen=True)
class Example:
  """One sample as its file has it: one character a symbol, and the number of its class."""

  sequence: str
  label: int


@dataclasses.dataclass(frozen=True)
class Task:
  """A data set and what is asked of it.

  Attributes:
    name: the key that `tasks.get` takes.
    alphabet: of its sequences.
    labels: names of the classes, by number.
    metric: a key of `metrics.METRICS`.
    max_length: longest input in tokens, [CLS] and [SEP] counted.
    read: reads all samples; raises UserError with file and line where the file is not as published.
  """

  name: str
  alphabet: Alphabet
  labels: tuple[str, ...]
  metric: str
  max_length: int
  read: Callable[[], list[Example]]


@dataclasses.dataclass(frozen=True)
class Split:
  """Indices into a task's samples."""

  train: np.ndarray
  validation: np.ndarray
  test: np.ndarray


def random_split(num_samples: int, seed: int, train_fraction: float = 1.0) -> Split:
  """90/5/5 by a seeded shuffle, as the paper splits its DNA sets.

  Args:
    num_samples: of the whole set.
    seed: of the shuffle.
    train_fraction: the share of the training part to keep, the first ones in shuffled order.

  Raises:
    UserError: a fraction outside (0, 1], or too few samples for three parts.
  """
  if not 0 < train_fraction <= 1:
    raise UserError(
      f"task.train_fraction = {train_fraction} is not in (0, 1]; give the share of the training set to use"
    )
  order = np.random.default_rng(seed).permutation(num_samples)
  held_out = round(num_samples * 0.05)
  if held_out == 0:
    raise UserError(f"{num_samples} samples cannot be split 90/5/5; give at least 11")
  num_train = num_samples - 2 * held_out
  keep = math.ceil(num_train * train_fraction)
  return Split(
    train=order[:keep],
    validation=order[num_train : num_train + held_out],
    test=order[num_train + held_out :],
  )


def read_lines(path: pathlib.Path, where_to_get_it: str) -> list[str]:
  """The lines of a text file, without line ends; raises UserError where it is missing, empty or not text."""
  try:
    text = path.read_text(encoding="utf-8-sig")
  except FileNotFoundError:
    raise UserError(f"no file {path}; {where_to_get_it}") from None
  except OSError as error:
    raise UserError(f"{error.strerror}, {path}; {where_to_get_it}") from None
  except UnicodeDecodeError as error:
    line = path.read_bytes()[: error.start].count(b"\n") + 1
    raise UserError(f"not UTF-8 text, {path}:{line}; {where_to_get_it}") from None
  if not text.strip():
    raise UserError(f"empty file, {path}; {where_to_get_it}")
  return text.splitlines()
