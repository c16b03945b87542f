"""The keys that a model's weights are drawn with."""

from typing import Any

import jax


class _KeyStream:
  def __init__(self, key: jax.Array):
    self._key = key
    self._count = 0

  def params(self) -> jax.Array:
    key = jax.random.fold_in(self._key, self._count)
    self._count += 1
    return key


def key_stream(key: jax.Array) -> Any:
  """In the place of `nnx.Rngs(params=key)`, and the same keys.

  The count of an `nnx.Rngs` is a variable of the program: with it, to trace the drawing of twelve layers took a second
  more.
  """
  return _KeyStream(key)
