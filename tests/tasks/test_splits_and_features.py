"""Splits, feature arrays and metrics: values worked out by hand."""

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Alphabet, Example, random_split
from discipline_jax.tasks.features import featurise
from discipline_jax.tasks.metrics import accuracy

ALPHABET = Alphabet(tuple("ACGT"), {"U": "T"})


def test_split_is_90_5_5_and_loses_nothing():
  split = random_split(3190, seed=7)
  assert (len(split.train), len(split.validation), len(split.test)) == (2870, 160, 160)
  np.testing.assert_array_equal(
    np.sort(np.concatenate([split.train, split.validation, split.test])), np.arange(3190)
  )


def test_split_depends_on_the_seed_alone():
  np.testing.assert_array_equal(random_split(100, 1).train, random_split(100, 1).train)
  assert not np.array_equal(random_split(100, 1).train, random_split(100, 2).train)


def test_train_fraction_is_the_first_part_and_leaves_the_rest_alone():
  whole, part = random_split(1000, 3), random_split(1000, 3, train_fraction=0.01)
  np.testing.assert_array_equal(part.train, whole.train[:9])
  np.testing.assert_array_equal(part.test, whole.test)
  assert len(random_split(1000, 3, train_fraction=1e-9).train) == 1


@pytest.mark.parametrize("fraction", [0, -0.5, 1.01, float("nan")])
def test_train_fraction_out_of_range(fraction):
  with pytest.raises(UserError, match=r"task.train_fraction = .* is not in \(0, 1\]"):
    random_split(100, 0, fraction)


def test_too_few_samples():
  with pytest.raises(UserError, match="10 samples cannot be split 90/5/5"):
    random_split(10, 0)


def test_features_by_hand():
  features = featurise([Example("ACGU", 1), Example("T", 0)], ALPHABET, max_length=9)
  np.testing.assert_array_equal(features.symbols, [[1, 3, 4, 5, 6, 2], [1, 6, 2, 0, 0, 0]])
  np.testing.assert_array_equal(features.labels, [1, 0])


def test_long_sequences_are_cut_counted_and_said(caplog):
  features = featurise([Example("ACGTACGT", 0), Example("AC", 0)], ALPHABET, max_length=5)
  np.testing.assert_array_equal(features.symbols, [[1, 3, 4, 5, 2], [1, 3, 4, 2, 0]])
  assert "1 of 2 sequences are longer than task.max_length = 5 tokens and were cut" in caplog.text


def test_accuracy_by_hand():
  assert (
    accuracy(np.array([0, 1, 1, 2]), np.array([[2, 1, 0], [0, 1, 0], [5, 1, 0], [0, 0, 9.0]])) == 75
  )
