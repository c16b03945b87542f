"""Tests that `key_stream` gives the same keys as Flax's `nnx.Rngs`."""

import jax
import numpy as np
from flax import nnx

from discipline_jax.models.key_stream import key_stream


def test_the_keys_are_those_of_flax():
  ours, theirs = key_stream(jax.random.key(7)), nnx.Rngs(params=jax.random.key(7))
  keys = [np.asarray(jax.random.key_data(ours.params())) for _ in range(3)]
  expected = [np.asarray(jax.random.key_data(theirs.params())) for _ in range(3)]
  np.testing.assert_array_equal(keys, expected)
  assert len({key.tobytes() for key in keys}) == 3
