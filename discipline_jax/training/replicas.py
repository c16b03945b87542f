"""Several runs that differ by their seed, computed side by side: the leading axis of all that belongs to one."""

from collections.abc import Callable

import jax


def over_replicas(function: Callable, *stacked):
  """Applies `function` to each replica of a group, side by side."""
  if (
    jax.tree.leaves(stacked)[0].shape[0] == 1
  ):  # a batched product of one is slower than a product on CPU
    # As primitives: of the hundreds of indexings that this would be, each takes a while to trace.
    alone = jax.tree.map(lambda x: jax.lax.squeeze(x, (0,)), stacked)
    return jax.tree.map(lambda x: jax.lax.expand_dims(x, (0,)), function(*alone))
  return jax.vmap(function)(*stacked)
