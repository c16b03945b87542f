"""Counts of symbols: by hand, and against those of scikit-learn."""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from discipline_jax.programs import symbol_counts
from discipline_jax.programs.symbol_counts import count_sequences, count_symbols
from discipline_jax.tasks.features import CLS, NUM_SPECIAL, PAD, SEP


def encode(texts, alphabet):
  width = max(map(len, texts)) + 2
  symbols = np.full((len(texts), width), PAD, np.uint8)
  for row, text in zip(symbols, texts, strict=True):
    row[: len(text) + 2] = [CLS, *(NUM_SPECIAL + alphabet.index(letter) for letter in text), SEP]
  return symbols


def test_counts_by_hand():
  counts = count_symbols(encode(["ABA"], "AB"), NUM_SPECIAL + 2).toarray()[0]
  # A, B; AA, AB, BA, BB; AAA, AAB, ABA, ...; four in a row do not occur.
  assert counts[:6].tolist() == [2, 1, 0, 1, 1, 0]
  assert counts[6:14].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
  assert counts[14:].tolist() == [0] * 16


def test_counts_are_those_of_scikit_learn(monkeypatch):
  """Every column of its vectorizer is one of ours; also over several blocks of rows."""
  monkeypatch.setattr(symbol_counts, "_SYMBOLS", 210)
  rng = np.random.default_rng(0)
  texts = ["".join(rng.choice(list("ACGT"), rng.integers(1, 30))) for _ in range(20)]
  ours = count_symbols(encode(texts, "ACGT"), NUM_SPECIAL + 4).toarray()
  vectorizer = CountVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False)
  theirs = vectorizer.fit_transform(texts).toarray()
  start = {1: 0, 2: 4, 3: 20, 4: 84}
  for gram, column in vectorizer.vocabulary_.items():
    place = start[len(gram)] + sum(
      "ACGT".index(letter) * 4**i for i, letter in enumerate(reversed(gram))
    )
    np.testing.assert_array_equal(ours[:, place], theirs[:, column])
  assert ours.sum() == theirs.sum()


def test_large_alphabets_share_columns(monkeypatch):
  monkeypatch.setattr(symbol_counts, "_COLUMNS", 1 << 8)
  monkeypatch.setattr(symbol_counts, "_SHIFT", np.uint64(64 - 8))
  rng = np.random.default_rng(0)
  symbols = rng.integers(NUM_SPECIAL, NUM_SPECIAL + 200, size=(30, 50)).astype(np.uint8)
  counts = count_symbols(symbols, NUM_SPECIAL + 200)
  assert counts.shape == (30, 200 + 3 * 256)
  assert counts.sum() == 30 * (50 + 49 + 48 + 47)
  in_pairs = counts[:, 200:456].toarray().sum(0)
  assert (in_pairs > 0).mean() > 0.9  # 1,470 pairs are spread over the columns
  same = count_symbols(symbols[::-1].copy(), NUM_SPECIAL + 200)
  np.testing.assert_array_equal(same.toarray(), counts.toarray()[::-1])


def test_both_sequences_of_a_pair_are_counted_side_by_side():
  """[CLS] A B [SEP] B [SEP]: B in the first one is another column than B in the second one."""
  a, b = NUM_SPECIAL, NUM_SPECIAL + 1
  symbols = np.array([[CLS, a, b, SEP, b, SEP, PAD]], np.uint8)
  segments = np.array([[0, 0, 0, 0, 1, 1, 0]], np.uint8)
  counts = count_sequences(symbols, segments, NUM_SPECIAL + 2).toarray()[0]
  first, second = np.split(counts, 2)
  assert first[:6].tolist() == [1, 1, 0, 1, 0, 0]
  assert second[:6].tolist() == [0, 1, 0, 0, 0, 0]
  assert counts.sum() == 4
