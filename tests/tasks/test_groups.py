"""Groups of sequences that are alike, against the definition written out, and by hand."""

import itertools

import numpy as np
import pytest

from discipline_jax.tasks.features import CLS, NUM_SPECIAL, PAD, SEP
from discipline_jax.tasks.groups import group_by_identity


def encoded(sequences, letters="ACGT", special=True):
  """Returns the symbols of sequences as `Features` has them."""
  rows = [[letters.index(letter) + NUM_SPECIAL for letter in one] for one in sequences]
  rows = [[CLS, *row, SEP] if special else row for row in rows]
  width = max(map(len, rows))
  return np.array([row + [PAD] * (width - len(row)) for row in rows], np.uint8)


def components(sequences, k, identity):
  """Returns the sets of sequences that single linkage joins."""
  kmers = [{one[i : i + k] for i in range(max(1, len(one) - k + 1))} for one in sequences]
  sets = [{i} for i in range(len(sequences))]
  for a, b in itertools.combinations(range(len(sequences)), 2):
    if len(kmers[a] & kmers[b]) >= identity * min(len(kmers[a]), len(kmers[b])) - 1e-9:
      joined = sets[a] | sets[b]
      for one in joined:
        sets[one] = joined
  return {frozenset(one) for one in sets}


def as_sets(groups):
  return {frozenset(np.flatnonzero(groups == one).tolist()) for one in np.unique(groups)}


def families(rng, letters, number, members, length, changes):
  """Families of sequences that differ from the first one by a few substitutions, some of them cut short."""
  sequences = []
  for _ in range(number):
    first = rng.choice(list(letters), length)
    for _ in range(members):
      one = first.copy()
      one[rng.integers(length, size=changes)] = rng.choice(list(letters), changes)
      sequences.append("".join(one[: rng.integers(length // 2, length + 1)]))
  return sequences


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("letters", ["ACGT", "ACDEFGHIKLMNPQRSTVWY"])
@pytest.mark.parametrize("identity", [0.5, 0.8, 1.0])
def test_the_definition(letters, identity, special):
  rng = np.random.default_rng(len(letters))
  sequences = families(rng, letters, number=12, members=5, length=60, changes=2)
  groups, k = group_by_identity(encoded(sequences, letters, special), identity)
  found = as_sets(groups)
  assert found == components(sequences, k, identity)
  assert len(found) >= 12  # random families have nothing in common


def test_families_that_differ_little_are_found():
  rng = np.random.default_rng(3)
  sequences = families(rng, "ACGT", number=300, members=2, length=100, changes=1)
  groups, _ = group_by_identity(encoded(sequences), 0.6)  # more rows than one block
  assert as_sets(groups) == {frozenset([i, i + 1]) for i in range(0, 600, 2)}


def test_a_part_is_like_the_whole_and_links_are_passed_on():
  """The middle one shares its halves with the two others, which share nothing."""
  a, b = "ACCAGTTCAGACTTGA", "GGTACATTTGCGCCAT"
  groups, _ = group_by_identity(encoded([a, b, a + b, "T" * 16]), 1.0)
  assert as_sets(groups) == {frozenset([0, 1, 2]), frozenset([3])}


def test_a_part_of_the_other_strand_is_like_the_whole():
  """Of the letters ACGT and their numbers, the partner has the same place from the end."""
  complement = np.array([PAD, SEP, CLS, 6, 5, 4, 3], np.int32)
  whole = "ACCAGTTCAGACTTGAGGTACATTTGCGCCATACG"
  part = whole[3:31].translate(str.maketrans("ACGT", "TGCA"))[::-1]
  rows = encoded([whole, part, "AC", "GT", "AG", "CATGGACCTTTACGTAGGGACCCATATTCAACAG"])
  groups, _ = group_by_identity(rows, 1.0, complement)
  assert as_sets(groups) == {frozenset(one) for one in ([0, 1], [2, 3], [4], [5])}
  assert len(as_sets(group_by_identity(rows, 1.0)[0])) == 6


def test_short_and_uniform_sequences():
  groups, _ = group_by_identity(encoded(["A", "A", "C", "AC", "ACGTACGGTCATTTAGGACA"]), 1.0)
  assert as_sets(groups) == {frozenset([0, 1]), frozenset([2]), frozenset([3]), frozenset([4])}
  groups, k = group_by_identity(encoded(["AAA", "AAAA"]), 0.8)
  assert (as_sets(groups), k) == ({frozenset([0, 1])}, 1)
