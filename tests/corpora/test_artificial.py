"""Tests that artificial corpora have the properties of their definitions."""

import numpy as np
import pytest

from discipline_jax.corpora import artificial
from discipline_jax.corpora.artificial import (
  Lines,
  _brackets,
  _depths,
  flat,
  nesting,
  ranked,
  statistics,
  uniform,
  zipf,
)

FREQUENCIES = zipf(50)
MAKERS = {
  "uniform": lambda n, seed: uniform(n, seed, 50),
  "flat": lambda n, seed: flat(n, seed, FREQUENCIES),
  "nesting": lambda n, seed: nesting(n, seed, FREQUENCIES),
}


@pytest.mark.parametrize(
  ("kind", "least", "most"), [("uniform", 100, 119), ("flat", 100, 122), ("nesting", 80, 124)]
)
def test_lengths_of_lines(kind, least, most):
  lines = MAKERS[kind](5000, 0)
  lengths = [len(line) for line in lines]
  assert len(lengths) == len(lines.ends) == 5000
  assert (min(lengths), max(lengths)) == (least, most)
  assert sum(lengths) == len(lines.tokens)
  assert set(np.unique(lines.tokens)) <= set(range(50))
  if kind == "flat":
    assert all(length % 2 == 0 for length in lengths)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_seed_always_gives_the_same_corpus(kind):
  first, again, other = (MAKERS[kind](100, seed) for seed in (1, 1, 2))
  np.testing.assert_array_equal(first.tokens, again.tokens)
  np.testing.assert_array_equal(first.ends, again.ends)
  assert not np.array_equal(first.tokens[:1000], other.tokens[:1000])


def test_uniform_is_uniform():
  counts = np.bincount(uniform(5000, 0, 50).tokens, minlength=50)
  expected = counts.sum() / 50
  assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_flat_has_every_symbol_in_pairs_in_any_order(monkeypatch):
  monkeypatch.setattr(artificial, "_LINES_A_SORT", 300)
  lines = flat(2000, 0, FREQUENCIES)
  for line in lines:
    assert (np.bincount(line) % 2 == 0).all()
  counts = np.bincount(lines.tokens, minlength=50) / len(lines.tokens)
  np.testing.assert_allclose(counts, FREQUENCIES, atol=0.01)
  # Without shuffling, the two tokens of a pair would stand side by side, and this share would be 1.
  alike = np.mean([np.mean(line[::2] == line[1::2]) for line in lines])
  assert alike == pytest.approx(np.square(FREQUENCIES).sum(), abs=0.02)


def test_nesting_closes_the_latest_bracket():
  """Reads the stream with a stack: a token equal to the top of the stack closes that bracket."""
  lines = nesting(3000, 0, zipf(29_995))
  opened, stack, at_choice = 0, [], 0
  for token in lines.tokens.tolist():
    at_choice += bool(stack)
    if stack and stack[-1] == token:
      stack.pop()
    else:
      opened += bool(stack)
      stack.append(token)
  assert len(stack) < 60, "nearly all brackets are closed"
  assert opened / at_choice == pytest.approx(0.4, abs=0.01)


def test_depths_follow_the_definition():
  opens = np.random.default_rng(0).random(20_000) < 0.4
  depth, expected = 0, []
  for coin in opens:
    depth += 1 if coin or depth == 0 else -1
    expected.append(depth)
  np.testing.assert_array_equal(_depths(opens), expected)
  assert _depths(np.array([False] * 5)).tolist() == [1, 0, 1, 0, 1]


def test_brackets_by_hand():
  """The stream is `( [ ] { ( ) } )`."""
  tokens = _brackets(np.random.default_rng(0), np.array([1, 2, 1, 2, 3, 2, 1, 0]), zipf(10**6))
  a, b, c, d = tokens[0], tokens[1], tokens[3], tokens[4]
  assert tokens.tolist() == [a, b, b, c, d, d, c, a]
  assert len({a, b, c, d}) > 1


def test_the_stream_continues_across_blocks(monkeypatch):
  monkeypatch.setattr(artificial, "_BLOCK", 64)
  lines = nesting(500, 3, zipf(29_995))
  stack = []
  for token in lines.tokens.tolist():
    if stack and stack[-1] == token:
      stack.pop()
    else:
      stack.append(token)
  assert len(stack) < 60


def test_statistics_by_hand():
  lines = Lines(np.array([7, 3, 7, 3, 3, 7, 9], np.int32), np.array([5, 7]))
  # The distances are 2 (from 7 to 7), 2 and 1 (from 3 to 3). The 7 of the second line has no predecessor in its line.
  assert statistics(lines) == {"lines": 2, "tokens": 7, "types": 3, "mean_distance": 5 / 3}
  assert np.isnan(statistics(Lines(np.arange(3, dtype=np.int32), np.array([3])))["mean_distance"])


def test_frequencies():
  np.testing.assert_allclose(zipf(3), np.array([6, 3, 2]) / 11)
  np.testing.assert_allclose(zipf(2, 2.0), [0.8, 0.2])
  np.testing.assert_allclose(ranked(np.array([0, 9, 2]), 4), np.array([10, 3, 1, 1]) / 15)
  np.testing.assert_allclose(ranked(np.array([0, 9, 2]), 2), np.array([10, 3]) / 13)


def test_a_corpus_without_lines_is_an_error():
  with pytest.raises(ValueError, match="num_lines = 0 "):
    uniform(0, 0)
