"""What a task is, and how its samples are split."""

import dataclasses
import math
import pathlib
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from absl import logging

from discipline_jax.errors import UserError

Record = TypeVar("Record")
Sample = TypeVar("Sample")
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


@dataclasses.dataclass(frozen=True)
class Alphabet:
  """The symbols of a discipline.

  Attributes:
    symbols: in the order of their numbers.
    aliases: other spellings, each read as the symbol it maps to.
    ids: the token id of each symbol, for symbols that no tokenizer knows; None: the tokenizer's.
    unknown_symbol: one that may be the model's unknown token, for that is what it means.
    is_open: whether there may be other symbols. These, and in each replica those that its training part lacks, are
      one symbol more, with the row of the model's unknown token.
  """

  symbols: tuple[str, ...]
  aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
  ids: tuple[int, ...] | None = None
  is_open: bool = False
  unknown_symbol: str | None = None

  def unknown(self, sequence: Sequence[str]) -> str | None:
    """The first element of `sequence`, a text or a list, that is neither a symbol nor an alias, or None."""
    known = {*self.symbols, *self.aliases}
    return (
      None
      if known.issuperset(sequence)
      else next(letter for letter in sequence if letter not in known)
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
  """One sample as its file has it.

  Attributes:
    sequence: symbols, one character each, or their numbers in the alphabet; or a text.
    label: the number of its class, or the value to predict.
    second: the other text of a pair.
    piece: the number of what the sample is a part of, where pieces are judged by their parts.
  """

  sequence: str | np.ndarray
  label: float
  second: str | None = None
  piece: int | None = None


@dataclasses.dataclass(frozen=True)
class Task:
  """A data set and what is asked of it.

  Attributes:
    name: the key that `tasks.get` takes.
    alphabet: of its sequences; None for text, which is the tokenizer's business.
    labels: names of the classes, by number; none where a value is asked for.
    metric: a key of `metrics.METRICS`.
    max_length: longest input in tokens, [CLS] and [SEP] counted; None: what the model can take.
    read: reads all samples, by part: `all`, of which the parts are drawn, or `train`, `validation` and `test`.
      Without `test` the validation part is the test. Further `test_...` are scored beside it. Raises UserError
      with file and line where a file is not as published.
    files: those that `read` reads.
    bracketed: whether a sequence gets [CLS] before and [SEP] after it.
    stratified: whether parts that are drawn have the labels in like shares.
    vote: how the parts of a piece decide on it: `majority`, `first`; None where samples are pieces.
  """

  name: str
  alphabet: Alphabet | None
  labels: tuple[str, ...]
  metric: str
  max_length: int | None
  read: Callable[[], Mapping[str, Sequence[Example]]]
  files: tuple[pathlib.Path, ...] = ()
  bracketed: bool = True
  stratified: bool = False
  vote: str | None = None

  @property
  def num_outputs(self) -> int:
    """What a model gives for a sample: a logit for each class, or one value."""
    return len(self.labels) or 1


# Indices into a task's samples, by part.
Split = Mapping[str, np.ndarray]


def make_split(
  parts: Mapping[str, int],
  seed: int,
  train_fraction: float = 1.0,
  strata: np.ndarray | None = None,
) -> Split:
  """The parts of one replica.

  Args:
    parts: the number of samples of each part that `Task.read` gives, in the order of the samples.
    seed: of the shuffle that 90/5/5 are cut from where the only part is `all`, as the paper splits its DNA sets,
      and of the order of a given training part.
    train_fraction: the share of the training part to keep, the first ones in shuffled order.
    strata: a label for each sample, which parts that are drawn have in like shares; None: they are drawn freely.

  Raises:
    UserError: a fraction outside (0, 1], or too few samples for three parts.
  """
  if not 0 < train_fraction <= 1:
    raise UserError(
      f"task.train_fraction = {train_fraction} is not in (0, 1]; give the share of the training set to use"
    )
  rng = np.random.default_rng(seed)
  if set(parts) == {"all"}:
    order = rng.permutation(parts["all"])
    held_out = round(len(order) * 0.05)
    if held_out == 0:
      raise UserError(f"{len(order)} samples cannot be split 90/5/5; give at least 11")
    if strata is None:
      train, validation, test = np.split(order, [len(order) - 2 * held_out, len(order) - held_out])
    else:
      # At like distances in the order of the labels, in turn for validation and test: neither takes the other's share
      # of a class from training. The parts themselves stay shuffled, for eval.max_examples takes their first ones.
      by_label = order[np.argsort(strata[order], kind="stable")]
      turns = np.arange(2 * held_out)
      places = (turns * len(order) + rng.integers(len(order))) // (2 * held_out)
      part = np.zeros(len(order), int)
      part[by_label[places]] = 1 + (turns + rng.integers(2)) % 2
      train, validation, test = (order[part[order] == i] for i in range(3))
    split = {"train": train, "validation": validation, "test": test}
  else:
    ends = np.cumsum(list(parts.values()))
    split = dict(zip(parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    split["train"] = rng.permutation(split["train"])
    split.setdefault("test", split["validation"])
  split["train"] = split["train"][: math.ceil(len(split["train"]) * train_fraction)]
  return split


def read_lines(path: pathlib.Path, where_to_get_it: str) -> list[str]:
  """The lines of a text file, without line ends; raises UserError where it is missing, empty or not text."""
  try:
    text = path.read_text(encoding="utf-8-sig")
  except FileNotFoundError:
    raise UserError(f"no file {path}; {where_to_get_it}") from None
  except OSError as error:
    raise UserError(f"{error.strerror}, {path}; {where_to_get_it}") from None
  except UnicodeDecodeError as error:
    line = error.object[: error.start].count(b"\n") + 1
    raise UserError(f"not UTF-8 text, {path}:{line}; {where_to_get_it}") from None
  if not text.strip():
    raise UserError(f"empty file, {path}; {where_to_get_it}")
  # Not splitlines: a text may hold the other characters that it takes for line ends.
  return text.removesuffix("\n").split("\n")


def upper(sequence: str) -> str:
  """Upper case of ASCII letters only: `str.upper` would make two S of one sharp s."""
  return sequence.translate(_UPPER)


def keep_valid(
  records: Iterable[Record | UserError],
  read: Callable[[Record], Sample],
  skip_invalid: bool,
  path: pathlib.Path,
) -> list[Sample]:
  """Reads records; one that is or gives a UserError ends the run, or with `skip_invalid` is left out and counted."""
  samples, errors = [], []
  for record in records:
    try:
      if isinstance(record, UserError):
        raise record
      samples.append(read(record))
    except UserError as error:
      if not skip_invalid:
        raise
      errors.append(error)
  if errors:
    logging.warning("%d samples of %s are left out; the first: %s", len(errors), path, errors[0])
  if not samples:
    raise UserError(f"no valid sample, {path}; unset task.skip_invalid to see why")
  return samples
