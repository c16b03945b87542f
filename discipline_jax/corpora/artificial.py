"""Artificial corpora: lines of random symbols 0, 1, ... that have one property of a language, or none.

Follows Chiang and Lee 2022, "On the transferability of pre-trained language models". All functions are vectorised, and
the same seed always gives the same corpus.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Int64

NUM_SYMBOLS = 29_995  # with five special tokens, a vocabulary of 30,000
_OPEN = 0.4  # probability of a new bracket while another one is open
_BLOCK = 1 << 22  # tokens of the stream of brackets that are sampled at once
_LINES_A_SORT = 1 << 16
# The least and the most symbols of a line. `flat` then has each of them twice.
_UNIFORM = (100, 119)
_FLAT = (50, 61)
_NESTING = (80, 124)


@dataclasses.dataclass(frozen=True)
class Lines:
  """The lines of an artificial corpus.

  Attributes:
    tokens: the symbols of all lines, one line after the other.
    ends: index in `tokens` after the last symbol of each line.
  """

  tokens: Int32[np.ndarray, " tokens"]
  ends: Int64[np.ndarray, " lines"]

  def __iter__(self) -> Iterator[Int32[np.ndarray, " _"]]:
    """Iterates over the lines."""
    return iter(np.split(self.tokens, self.ends[:-1]))


def zipf(num_symbols: int = NUM_SYMBOLS, exponent: float = 1.0) -> Float64[np.ndarray, " symbols"]:
  """Returns frequencies by Zipf's law: the frequency of rank r is proportional to r ** -exponent."""
  weights = np.arange(1, num_symbols + 1) ** -exponent
  return weights / weights.sum()


def ranked(
  counts: Int64[np.ndarray, " types"], num_symbols: int = NUM_SYMBOLS
) -> Float64[np.ndarray, " symbols"]:
  """Returns the frequencies of the `num_symbols` most frequent tokens of a text, in falling order.

  Every count is raised by one, so that no symbol is impossible. The text's rarer tokens are dropped.
  """
  highest = np.sort(counts)[::-1][:num_symbols]
  weights = 1.0 + np.pad(highest, (0, num_symbols - len(highest)))
  return weights / weights.sum()


def uniform(num_lines: int, seed: int | Sequence[int], num_symbols: int = NUM_SYMBOLS) -> Lines:
  """Makes lines of 100 to 119 symbols; all symbols are equally likely."""
  rng = np.random.default_rng(seed)
  ends = _ends(rng, num_lines, _UNIFORM)
  return Lines(rng.integers(num_symbols, size=ends[-1], dtype=np.int32), ends)


def flat(
  num_lines: int, seed: int | Sequence[int], frequencies: Float64[np.ndarray, " symbols"]
) -> Lines:
  """Makes lines of 50 to 61 random symbols, each of them twice, in random order; both of a pair are in one line."""
  rng = np.random.default_rng(seed)
  ends = _ends(rng, num_lines, _FLAT)
  tokens = np.repeat(_sample(rng, int(ends[-1]), frequencies), 2)
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
  """Makes an endless stream of nested brackets, and cuts it into lines of 80 to 124 tokens.

  With probability 0.4, and always when no bracket is open, a new bracket opens: a random symbol. Otherwise the bracket
  that opened last closes: the same symbol again.
  """
  rng = np.random.default_rng(seed)
  ends = _ends(rng, num_lines, _NESTING)
  blocks, missing = [], int(ends[-1])
  while missing > 0:
    # When no bracket is open, what follows does not depend on what came before. So a block ends at such a place.
    depth = _depths(rng.random(_BLOCK) < _OPEN)
    closed = np.flatnonzero(depth == 0)
    if len(closed) == 0:
      continue
    block = _brackets(rng, depth[: closed[-1] + 1], frequencies)
    blocks.append(block[:missing])
    missing -= len(block)
  return Lines(np.concatenate(blocks), ends)


def statistics(lines: Lines) -> dict[str, int | float]:
  """Measures an artificial corpus.

  Returns:
    The numbers of `lines`, `tokens` and `types` (different symbols), and the `mean_distance` from a token to the next
    occurrence of its symbol in the same line, which is NaN if no line has a symbol twice.
  """
  line = np.repeat(np.arange(len(lines.ends)), np.diff(lines.ends, prepend=0))
  order = np.lexsort((lines.tokens, line))  # stable: equal tokens of a line stay in their order
  same = (np.diff(line[order]) == 0) & (np.diff(lines.tokens[order]) == 0)
  distances = np.diff(order)[same]
  return {
    "lines": len(lines.ends),
    "tokens": len(lines.tokens),
    "types": len(np.unique(lines.tokens)),
    "mean_distance": float(distances.mean()) if len(distances) else float("nan"),
  }


def _ends(
  rng: np.random.Generator, num_lines: int, lengths: tuple[int, int]
) -> Int64[np.ndarray, " lines"]:
  """Samples a length for each line, from the least to the most, and adds them up."""
  if num_lines < 1:
    raise ValueError(f"num_lines = {num_lines} is less than 1")
  return np.cumsum(rng.integers(lengths[0], lengths[1] + 1, num_lines))


def _sample(
  rng: np.random.Generator, size: int, frequencies: Float64[np.ndarray, " symbols"]
) -> Int32[np.ndarray, " size"]:
  """Samples symbols with these frequencies."""
  cumulative = np.cumsum(frequencies)
  return np.searchsorted(cumulative, rng.random(size) * cumulative[-1], "right").astype(np.int32)


def _shuffled(
  rng: np.random.Generator,
  tokens: Int32[np.ndarray, " tokens"],
  lengths: Int64[np.ndarray, " lines"],
  num_symbols: int,
) -> Int32[np.ndarray, " tokens"]:
  """Shuffles the tokens within each line.

  It sorts 64-bit numbers whose highest bits are the line, the next ones random, and the lowest ones the token.
  """
  token_bits = (num_symbols - 1).bit_length()
  chance_bits = 64 - 16 - token_bits
  keys = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths) << np.uint64(chance_bits)
  keys |= rng.integers(1 << chance_bits, size=len(tokens), dtype=np.uint64)
  keys = np.sort((keys << np.uint64(token_bits)) | tokens.astype(np.uint64))
  return (keys & np.uint64((1 << token_bits) - 1)).astype(np.int32)


def _depths(opens: Bool[np.ndarray, " tokens"]) -> Int32[np.ndarray, " tokens"]:
  """Returns how many brackets are open after each token. A token after which the depth would be -1 opens instead.

  Without that rule the depth would be a plain random walk. Each use of the rule lifts the rest of the walk by two, and
  the rule is used when the plain walk first reaches -1, -3, -5, ...; so the minimum of the plain walk up to a token
  says how often it was used.
  """
  walk = np.cumsum(2 * opens.astype(np.int8) - 1, dtype=np.int32)
  lowest = np.minimum(np.minimum.accumulate(walk), 0)
  return walk + (1 - lowest) // 2 * 2


def _brackets(
  rng: np.random.Generator,
  depth: Int[np.ndarray, " tokens"],
  frequencies: Float64[np.ndarray, " symbols"],
) -> Int32[np.ndarray, " tokens"]:
  """Samples the symbols of a stream in which `depth` brackets are open after each token; the last depth is 0."""
  before = np.concatenate([[0], depth[:-1]])
  levels = np.maximum(before, depth)
  # A depth tends to fall, because brackets close more often than they open.
  assert levels.max() < 1 << 16
  # Brackets of one level open and close in turn. So a stable sort by level puts both tokens of a pair side by side.
  order = np.argsort(levels.astype(np.uint16), kind="stable")  # 16 bits make it a radix sort
  tokens: np.ndarray = np.empty(len(depth), np.int32)
  tokens[order] = np.repeat(_sample(rng, len(depth) // 2, frequencies), 2)
  return tokens
