"""The samples of a task as their files have them, and the symbols that they are made of."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Alphabet:
  """The symbols of a discipline.

  Attributes:
    symbols: in the order of their numbers.
    aliases: other spellings, each with the symbol that it is read as.
    ids: the token id of each symbol, for symbols that no tokenizer knows; None to ask the tokenizer.
    unknown_symbol: the symbol that may share the model's unknown token, because it means "unknown" itself.
    is_open: whether other symbols may occur. They, and in each replica the symbols that its training part lacks, count
      as one more symbol, which has the row of the model's unknown token.
  """

  symbols: tuple[str, ...]
  aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
  ids: tuple[int, ...] | None = None
  is_open: bool = False
  unknown_symbol: str | None = None

  @property
  def spelling(self) -> str:
    """Returns how a table writes sequences: `characters`, or `integers` if a symbol has several."""
    return "characters" if max(map(len, self.symbols)) == 1 else "integers"

  def unknown(self, sequence: Sequence[str]) -> str | None:
    """Returns the first element of `sequence`, a text or a list, that is neither a symbol nor an alias, or None."""
    known = {*self.symbols, *self.aliases}
    if known.issuperset(sequence):
      return None
    return next(letter for letter in sequence if letter not in known)


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
  """One sample as its file has it.

  Attributes:
    sequence: symbols, as a text of one character each or as an array of their numbers in the alphabet; or a text.
    label: its class number, the value to predict, or whatever the task's answer takes; None if there is no label.
    second: the second text of a pair.
    group: the number of the group that the sample belongs to, if groups are scored and not samples, or if a random
      split is to keep them together.
    first: the number of symbols of the first sequence of a pair; the others in `sequence` are the second one.
  """

  sequence: str | np.ndarray
  label: Any
  second: str | None = None
  group: int | None = None
  first: int | None = None
