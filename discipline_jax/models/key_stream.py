"""A source of the random keys that initialise a model's weights."""

import jax
from flax import nnx


class KeyStream:
  """Stands in for `nnx.Rngs(params=key)` and gives the same keys.

  The counter of an `nnx.Rngs` is a variable of the program. With it, tracing the initialisation of twelve layers takes
  a second longer.
  """

  def __init__(self, key: jax.Array):
    self._key = key
    self._count = 0

  def params(self) -> jax.Array:
    """Returns the next key."""
    key = jax.random.fold_in(self._key, self._count)
    self._count += 1
    return key


Rngs = nnx.Rngs | KeyStream  # what a module takes as `rngs`


def key_stream(key: jax.Array) -> KeyStream:
  """Returns a new stream of keys that starts from `key`."""
  return KeyStream(key)
