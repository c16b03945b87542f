"""Tests that batches are fed in order, and that waiting for them is measured."""

import time

import jax.numpy as jnp
import pytest

from discipline_jax.training.feed import Feed


def slow(seconds):
  for number, pause in enumerate(seconds):
    time.sleep(pause)
    yield number


def test_updates_get_the_batches_in_order():
  feed = Feed(slow([0, 0, 0]), lambda state, _, batch: ([*state, batch], {"loss": jnp.zeros(1)}))
  state = []
  for step in range(3):
    state, (metrics,) = feed.update(state, step)
    assert set(metrics) == {"loss"}
  assert state == [0, 1, 2]
  feed.close()


def test_waiting_counts_without_the_first_batch():
  """The device is idle while the second batch is read, for 0.2 s; the first one takes 0.4 s, which does not count."""
  done = {"loss": jnp.zeros(1).block_until_ready()}
  feed = Feed(slow([0.4, 0.2]), lambda state, _, batch: (state, done))
  assert feed.waiting() is None
  started = time.perf_counter()
  for step in range(2):
    feed.update(None, step)
  share = feed.waiting()
  assert share == pytest.approx(0.2 / (time.perf_counter() - started), rel=0.2)
