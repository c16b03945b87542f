"""Counts the runs of symbols in sequences, as text classifiers count the runs of letters in words."""

import numpy as np
from jaxtyping import UInt, UInt8

from discipline_jax.tasks.features import NUM_SPECIAL, PAD

LONGEST = 4  # symbols in a row that are counted
_COLUMNS = 1 << 18  # most counts for each number of symbols in a row; more share columns by hashing
_SYMBOLS = 1 << 21  # symbols that are counted together, which bounds memory
# Hashing multiplies by 2^64 over the golden ratio, and keeps as many of the highest bits as number the columns.
_HASH = np.uint64(11400714819323198485)
_SHIFT = np.uint64(64 - (_COLUMNS.bit_length() - 1))


def count_sequences(
  symbols: UInt[np.ndarray, "samples length"],
  segments: UInt8[np.ndarray, "samples length"] | None,
  num_symbols: int,
):
  """Counts the runs of one to four symbols; of pairs, those of both sequences side by side.

  Args:
    symbols, segments: see `Features`.
    num_symbols: how many symbols there are, special ones counted.

  Returns:
    See `count_symbols`.
  """
  from scipy import sparse  # half a second, and only a comparison needs it

  if segments is None:
    return count_symbols(symbols, num_symbols)
  parts = [np.where(segments == side, symbols, symbols.dtype.type(PAD)) for side in (0, 1)]
  return sparse.hstack([count_symbols(one, num_symbols) for one in parts], format="csr")


def count_symbols(symbols: UInt[np.ndarray, "samples length"], num_symbols: int):
  """Counts the runs of one to four symbols in each sample; special tokens and padding are no symbols.

  Args:
    symbols: see `Features`.
    num_symbols: how many symbols there are, special ones counted.

  Returns:
    A sparse matrix [samples, columns] of SciPy. If there are too many possible runs of some number of symbols, several
    share a column, by multiplicative hashing (Knuth, The art of computer programming, volume 3, section 6.4).
  """
  from scipy import sparse  # half a second, and only a comparison needs it

  base = max(1, num_symbols - NUM_SPECIAL)
  blocks = []
  step = max(1, _SYMBOLS // symbols.shape[1])
  for start in range(0, len(symbols), step):
    rows = symbols[start : start + step]
    columns, width = [], rows.shape[1]
    codes: np.ndarray = np.zeros(rows.shape, np.uint64)
    whole: np.ndarray = np.ones(rows.shape, bool)
    for n in range(1, min(LONGEST, width) + 1):
      last = rows[:, n - 1 :]
      codes = codes[:, : last.shape[1]] * np.uint64(base) + (last.astype(np.uint64) - NUM_SPECIAL)
      whole = whole[:, : last.shape[1]] & (last >= NUM_SPECIAL)
      size = min(base**n, _COLUMNS)
      places = codes if base**n <= _COLUMNS else (codes * _HASH) >> _SHIFT
      sample, _ = np.nonzero(whole)
      ones = np.ones(len(sample), np.float32)
      pair = (sample, places[whole].astype(np.int64))
      columns.append(sparse.csr_matrix((ones, pair), shape=(len(rows), size)))
    blocks.append(sparse.hstack(columns, format="csr"))
  return sparse.vstack(blocks, format="csr")
