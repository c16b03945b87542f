"""The second strand of DNA: each sequence read backwards, with every base replaced by its partner."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int32, Integer, UInt

from discipline_jax.errors import UserError
from discipline_jax.models.heads import Classifier
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.features import CLS, NUM_SPECIAL, PAD, SEP

# `task.reverse_complement`: reads one strand; in training one of both, drawn anew in each update; also averages the
# outputs for both in evaluation and prediction.
CHOICES = ("off", "augment", "average")
# The bases, and the IUPAC codes for several of them (Cornish-Bowden 1985).
_PARTNERS = dict(zip("ACGTRYSWKMBDHVN", "TGCAYRSWMKVHDBN", strict=True))
_PARTNERS |= {one.lower(): other.lower() for one, other in _PARTNERS.items()}


def reverse_complement(symbol: str) -> str | None:
  """Returns what the other strand has in place of a letter or k-mer; None if it has a letter that is no base."""
  letters = [_PARTNERS.get(letter) for letter in reversed(symbol)]
  return None if None in letters else "".join(filter(None, letters))


def both_strands(symbols: Iterable[str]) -> set[str]:
  """Returns the symbols of both strands, as far as they are DNA."""
  symbols = set(symbols)
  return symbols | {other for other in map(reverse_complement, symbols) if other is not None}


def complements(task: Task, choice: str) -> Int32[np.ndarray, " symbols"]:
  """Returns the number that each symbol of `Features` has on the other strand, where [CLS] and [SEP] change places.

  Args:
    task: the task.
    choice: the value of `task.reverse_complement`, for messages.

  Raises:
    UserError: the task is not about whole sequences of DNA.
  """
  alphabet, what = task.alphabet, f"task.reverse_complement = {choice!r} is for DNA"
  remedy = "set --config.task.reverse_complement=off"
  if alphabet is None:
    raise UserError(f"{what}, but task {task.name} is text; {remedy}")
  if task.pairs:
    raise UserError(
      f"{what} and single sequences, but a sample of task {task.name} is a pair of them; {remedy}"
    )
  numbers = {symbol: NUM_SPECIAL + i for i, symbol in enumerate(alphabet.symbols)}
  others = [reverse_complement(symbol) for symbol in alphabet.symbols]
  for symbol, other in zip(alphabet.symbols, others, strict=True):
    if other not in numbers:
      hint = "write T for U, or " if set("Uu") & set(symbol) else ""
      raise UserError(
        f"{what}, but task {task.name} has the symbol {symbol[:40]!r}, which is no base and no IUPAC code of bases;"
        f" {hint}{remedy}"
      )
  if not isinstance(task.answer.head, Classifier):
    raise UserError(
      f"{what} and whole sequences, but task {task.name} has an answer for each position, whose order would change;"
      f" {remedy}"
    )
  found = np.arange(NUM_SPECIAL + len(numbers) + alphabet.is_open, dtype=np.int32)
  found[[PAD, CLS, SEP]] = PAD, SEP, CLS
  found[list(numbers.values())] = [numbers[str(other)] for other in others]
  return found


def other_strand(
  symbols: UInt[np.ndarray, "samples length"], complement: Integer[np.ndarray, " symbols"]
) -> UInt[np.ndarray, "samples length"]:
  """Returns samples read backwards, each symbol replaced by its complement; padding stays at the end.

  Args:
    symbols: the `symbols` of a `Features`.
    complement: see `complements`.
  """
  positions = np.arange(symbols.shape[1])[None]
  lengths = (symbols != PAD).sum(1, keepdims=True)
  mirrored = np.take_along_axis(symbols, np.maximum(0, lengths - 1 - positions), axis=1)
  return np.where(positions < lengths, complement[mirrored], PAD).astype(symbols.dtype)


def canonical_strand(
  symbols: UInt[np.ndarray, " length"], complement: Integer[np.ndarray, " symbols"]
) -> UInt[np.ndarray, " length"]:
  """Returns of a sample the strand that comes first in the order of its bytes: the same one for both strands.

  Args:
    symbols: those of the sample, without padding.
    complement: see `complements`.
  """
  other = complement[symbols[::-1]].astype(symbols.dtype)
  return min(symbols, other, key=np.ndarray.tobytes)
