"""Tests computed orders: each number comes once, at random, and needs no table."""

import itertools

import numpy as np
import pytest

from discipline_jax.corpora.permutation import Permutation


@pytest.mark.parametrize("size", [*range(1, 40), 64, 65, 1000, 4096, 4097])
def test_each_number_comes_once(size):
  order = Permutation.draw(size, [0, size])(np.arange(size))
  assert order.dtype == np.int64
  assert sorted(order.tolist()) == list(range(size))


def test_places_can_be_asked_in_any_order():
  order = Permutation.draw(1000, [1])
  whole = order(np.arange(1000))
  places = np.random.default_rng(0).permutation(1000)
  np.testing.assert_array_equal(order(places), whole[places])
  np.testing.assert_array_equal(order(places[:0]), whole[:0])


def test_large_numbers():
  """Neighbours in an order of 2**40 numbers are far apart, and are all in range."""
  size = (1 << 40) + 3
  order = Permutation.draw(size, [2])(np.arange(100_000) + size - 100_000)
  assert len(np.unique(order)) == 100_000
  assert order.min() >= 0
  assert order.max() < size
  assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.02
  assert abs(order.mean() / size - 0.5) < 0.005


def test_all_orders_of_four_are_about_equally_frequent():
  count = 6000
  orders = [tuple(Permutation.draw(4, [seed])(np.arange(4)).tolist()) for seed in range(count)]
  found = np.array([orders.count(one) for one in itertools.permutations(range(4))])
  assert (
    (found - count / 24) ** 2 / (count / 24)
  ).sum() < 60  # chi-squared with 23 degrees: 1 in 30,000


def test_numbers_are_spread_over_places():
  """Each sixteenth of the numbers has about a sixteenth of its places in each sixteenth of the order."""
  size = 1 << 16
  order = Permutation.draw(size, [3])(np.arange(size))
  cells = np.bincount((order >> 12) * 16 + (np.arange(size) >> 12), minlength=256)
  assert abs(cells - 256).max() < 5 * 16
  other = Permutation.draw(size, [4])(np.arange(size))
  assert (order == other).sum() < 10


def test_an_order_stays_the_same():
  """Otherwise a run that is resumed after an update would train on other rows."""
  order = Permutation.draw(10, [0, 3, 1, 2])(np.arange(10))
  assert order.tolist() == [3, 9, 0, 5, 2, 8, 4, 1, 6, 7]
