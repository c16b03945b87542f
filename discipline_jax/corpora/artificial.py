"""Corpora without meaning (Chiang and Lee 2022, "On the transferability of pre-trained language models"): lines of
symbols 0, 1, ..., drawn in a way that has one property of a language, or none.

Everything is vectorised, and a seed gives the same corpus whatever else is drawn.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int32, Int64

NUM_SYMBOLS = 29_995  # with five special tokens, a vocabulary of 30,000
_OPEN = 0.4  # probability of a new bracket where one is open
_BLOCK = 1 << 22  # tokens of the stream of brackets that are drawn at once
_LINES_A_SORT = 1 << 16
# The least and the most symbols of a line; of `flat`, before it is doubled.
_UNIFORM = (100, 119)
_FLAT = (50, 61)
_NESTING = (80, 124)


@dataclasses.dataclass(frozen=True)
class Lines:
  """A corpus.

  Attributes:
    tokens: of all lines, one after the other.
    ends: where each line ends in them.
  """

  tokens: Int32[np.ndarray, " tokens"]
  ends: Int64[np.ndarray, " lines"]

  def __iter__(self):
    return iter(np.split(self.tokens, self.ends[:-1]))


def zipf(num_symbols: int = NUM_SYMBOLS, exponent: float = 1.0) -> Float64[np.ndarray, " symbols"]:
  """Frequencies by Zipf's law: that of rank r is proportional to r ** -exponent."""
  weights = np.arange(1, num_symbols + 1) ** -exponent
  return weights / weights.sum()


def ranked(
  counts: Int64[np.ndarray, " types"], num_symbols: int = NUM_SYMBOLS
) -> Float64[np.ndarray, " symbols"]:
  """Frequencies of the tokens of a text, the most frequent first, for as many symbols.

  Each counts once more, so that none is impossible; what a text has beyond `num_symbols` is left out.
  """
  highest = np.sort(counts)[::-1][:num_symbols]
  weights = 1.0 + np.pad(highest, (0, num_symbols - len(highest)))
  return weights / weights.sum()


def uniform(num_lines: int, seed: int | Sequence[int], num_symbols: int = NUM_SYMBOLS) -> Lines:
  """100 to 119 symbols a line, each of them as likely as any other."""
  rng = np.random.default_rng(seed)
  ends = _ends(rng, num_lines, _UNIFORM)
  return Lines(rng.integers(num_symbols, size=ends[-1], dtype=np.int32), ends)


def flat(
  num_lines: int, seed: int | Sequence[int], frequencies: Float64[np.ndarray, " symbols"]
) -> Lines:
  """50 to 61 symbols a line, each twice, in any order: which symbols are pairs must be seen across the line."""
  rng = np.random.default_rng(seed)
  ends = _ends(rng, num_lines, _FLAT)
  tokens = np.repeat(_draw(rng, ends[-1], frequencies), 2)
  ends = 2 * ends
  starts = np.concatenate([[0], ends[:-1]])
  for first in range(0, num_lines, _LINES_A_SORT):
    own = slice(first, first + _LINES_A_SORT)
    part = slice(starts[first], ends[own][-1])
    tokens[part] = _shuffled(rng, tokens[part], (ends - starts)[own], len(frequencies))
  return Lines(tokens, ends)


def nesting(
  num_lines: int, seed: int | Sequence[int], frequencies: Float64[np.ndarray, " symbols"]
) -> Lines:
  """An endless stream of brackets that is cut into lines of 80 to 124 tokens.

  With probability 0.4, and wherever none is open, a bracket opens, which is a symbol; else the latest one closes, which
  is the same symbol again.
  """
  rng = np.random.default_rng(seed)
  ends = _ends(rng, num_lines, _NESTING)
  blocks, missing = [], int(ends[-1])
  while missing > 0:
    # Wherever nothing is open the stream begins anew: there one block ends and the next one begins.
    depth = _depths(rng.random(_BLOCK) < _OPEN)
    closed = np.flatnonzero(depth == 0)
    if len(closed) == 0:
      continue
    block = _brackets(rng, depth[: closed[-1] + 1], frequencies)
    blocks.append(block[:missing])
    missing -= len(block)
  return Lines(np.concatenate(blocks), ends)


def statistics(lines: Lines) -> dict[str, float]:
  """Lines, tokens, types, and the mean distance from a token to the next one of its kind in its line.

  The last is NaN where no line has a symbol twice.
  """
  line = np.repeat(np.arange(len(lines.ends)), np.diff(lines.ends, prepend=0))
  order = np.lexsort((lines.tokens, line))  # stable: like tokens of a line stay in their order
  same = (np.diff(line[order]) == 0) & (np.diff(lines.tokens[order]) == 0)
  distances = np.diff(order)[same]
  return {
    "lines": len(lines.ends),
    "tokens": len(lines.tokens),
    "types": len(np.unique(lines.tokens)),
    "mean_distance": float(distances.mean()) if len(distances) else float("nan"),
  }


def _ends(rng: np.random.Generator, num_lines: int, lengths: tuple[int, int]) -> np.ndarray:
  if num_lines < 1:
    raise ValueError(f"num_lines = {num_lines} is less than 1")
  return np.cumsum(rng.integers(lengths[0], lengths[1] + 1, num_lines))


def _draw(rng: np.random.Generator, size: int, frequencies: np.ndarray) -> np.ndarray:
  """Symbols of these frequencies."""
  cumulative = np.cumsum(frequencies)
  return np.searchsorted(cumulative, rng.random(size) * cumulative[-1], "right").astype(np.int32)


def _shuffled(
  rng: np.random.Generator, tokens: np.ndarray, lengths: np.ndarray, num_symbols: int
) -> np.ndarray:
  """The tokens of each line in any order: one sort of numbers that are the line, then chance, then the token."""
  token_bits = (num_symbols - 1).bit_length()
  chance_bits = 64 - 16 - token_bits
  keys = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths) << np.uint64(chance_bits)
  keys |= rng.integers(1 << chance_bits, size=len(tokens), dtype=np.uint64)
  keys = np.sort((keys << np.uint64(token_bits)) | tokens.astype(np.uint64))
  return (keys & np.uint64((1 << token_bits) - 1)).astype(np.int32)


def _depths(opens: np.ndarray) -> np.ndarray:
  """How many brackets are open after each token; where none was before it, it opens whatever `opens` says.

  Without that rule the depth would be a free walk. Each time the rule acts it lifts the walk by two, and it acts when
  the walk comes to -1, -3, -5, ...: so often the walk's minimum tells.
  """
  walk = np.cumsum(2 * opens.astype(np.int8) - 1, dtype=np.int32)
  lowest = np.minimum(np.minimum.accumulate(walk), 0)
  return walk + (1 - lowest) // 2 * 2


def _brackets(rng: np.random.Generator, depth: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
  """The symbols of a stream of brackets of which `depth` are open after each token."""
  before = np.concatenate([[0], depth[:-1]])
  levels = np.maximum(before, depth)
  assert levels.max() < 1 << 16  # they fall as often as not
  # Brackets of one level open and close in turn, so that in the order of levels each pair stands side by side.
  order = np.argsort(levels.astype(np.uint16), kind="stable")  # a radix sort, for 16 bits
  tokens: np.ndarray = np.empty(len(depth), np.int32)
  tokens[order] = np.repeat(_draw(rng, len(depth) // 2, frequencies), 2)
  return tokens
