"""Groups sequences that are alike, so that a random split can keep them together."""

import math

import numpy as np
import scipy.sparse
from jaxtyping import Int, Int32, UInt

from discipline_jax.files import progress
from discipline_jax.tasks.features import NUM_SPECIAL
from discipline_jax.tasks.strands import other_strand

_ROWS = 256  # sequences that are compared with all others at a time
# Two random sequences share at most about this part of their k-mers, so that what they share more means something.
_CHANCE = 0.01


def group_by_identity(
  symbols: UInt[np.ndarray, "samples length"],
  identity: float,
  complement: Int32[np.ndarray, " symbols"] | None = None,
) -> tuple[Int[np.ndarray, " samples"], int]:
  """Returns the number of each sequence's group, and the length of the k-mers that were compared.

  Two sequences are alike if they share `identity` of the distinct k-mers of the one that has fewer, so a part of a
  sequence is like the whole. Groups are formed by single linkage: sequences that are alike, and those that are like one
  of them, and so on. k is the smallest with which random sequences of these symbols have nearly nothing in common.

  Args:
    symbols: the `symbols` of a `Features`.
    identity: a share in (0, 1].
    complement: see `tasks.strands.complements`; if given, a k-mer and its reverse complement are the same.
  """
  lengths = (symbols >= NUM_SPECIAL).sum(1)
  # With both strands, twice as many k-mers of another sequence may be equal by chance.
  k = _informative_length(symbols, int(lengths.max()) * (1 if complement is None else 2))
  owners, codes = _kmers(symbols, lengths, k, complement)
  _, columns = np.unique(codes, return_inverse=True)
  # Each of a sequence's k-mers once, in a row of its own.
  pairs = np.unique(np.stack([owners, columns]), axis=1)
  shape = (len(symbols), int(columns.max()) + 1)
  table = scipy.sparse.csr_array((np.ones(pairs.shape[1], np.int32), pairs), shape=shape)
  sizes = np.bincount(pairs[0], minlength=len(symbols))
  return _linked(table, sizes, identity), k


def join_groups(
  groups: Int[np.ndarray, " windows"], owners: Int[np.ndarray, " windows"]
) -> Int[np.ndarray, " sequences"]:
  """Returns the number of each sequence's group: sequences are linked if a window of each is in one group.

  Args:
    groups: number of the group of each window.
    owners: number of the sequence of each window.
  """
  count = int(groups.max()) + 1
  size = count + int(owners.max()) + 1
  links = scipy.sparse.coo_array(
    (np.ones(len(groups), np.bool_), (groups, count + owners)), shape=(size, size)
  )
  _, joined = scipy.sparse.csgraph.connected_components(links, directed=False)
  return np.unique(joined[count:], return_inverse=True)[1]


def _informative_length(symbols: np.ndarray, longest: int) -> int:
  counts = np.bincount(symbols.ravel())[NUM_SPECIAL:]
  shares = counts[counts > 0] / counts.sum()
  # The number of equally frequent symbols that have the same entropy.
  effective = math.exp(-(shares * np.log(shares)).sum())
  if effective < 1.01:
    return 1
  return max(1, math.ceil(math.log(max(longest, 2) / _CHANCE) / math.log(effective)))


def _kmers(
  symbols: np.ndarray, lengths: np.ndarray, k: int, complement: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the sequence that each k-mer is of, and a code for the k-mer; a shorter sequence is one k-mer itself."""
  number = np.maximum(lengths - k + 1, 1)
  codes = _codes(symbols, k)
  owners, places = np.nonzero(np.arange(codes.shape[1]) < number[:, None])
  found = codes[owners, places]
  if complement is not None:
    others = _codes(other_strand(symbols, complement), k)
    found = np.minimum(found, others[owners, number[owners] - 1 - places])
  return owners, found


def _codes(symbols: np.ndarray, k: int) -> np.ndarray:
  """Returns a code for the k symbols from each position on."""
  multipliers = np.random.default_rng(0).integers(1, 2**63, size=k, dtype=np.uint64) * 2 + 1
  start = int((symbols[:, 0] < NUM_SPECIAL).all())  # behind [CLS]
  padded = np.pad(symbols[:, start:], ((0, 0), (0, k))).astype(np.uint64)
  padded[padded < NUM_SPECIAL] = 0
  codes = np.zeros((len(symbols), padded.shape[1] - k), np.uint64)
  with np.errstate(over="ignore"):  # a hash: sums of products modulo 2^64
    for i, multiplier in enumerate(multipliers):
      codes += padded[:, i : i + codes.shape[1]] * multiplier
  return codes


def _linked(
  table: scipy.sparse.csr_array, sizes: np.ndarray, identity: float
) -> Int[np.ndarray, " samples"]:
  """Returns the connected components of the sequences that are alike."""
  by_kmer = table.T.tocsr()
  links = []
  starts = range(0, table.shape[0], _ROWS)
  for start in progress.bar(starts, desc="grouping", unit="block", leave=False):
    shared = (table[start : start + _ROWS] @ by_kmer).tocoo()
    rows = shared.row + start
    alike = shared.data >= identity * np.minimum(sizes[rows], sizes[shared.col]) - 1e-9
    links.append(np.stack([rows[alike], shared.col[alike]]))
  rows, columns = np.concatenate(links, axis=1)
  graph = scipy.sparse.coo_array(
    (np.ones(len(rows), np.bool_), (rows, columns)), shape=(len(sizes), len(sizes))
  )
  _, groups = scipy.sparse.csgraph.connected_components(graph, directed=False)
  return groups
