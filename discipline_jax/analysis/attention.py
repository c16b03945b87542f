"""Compares the attention maps of two networks: which heads of one are like which heads of the other.

The distance of two maps is the L1 distance of their rows, averaged over the queries that are no padding: from 0 to 2.
The heads of a layer are matched so that the sum of the distances is smallest (Kuhn 1955, by SciPy).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy.optimize import linear_sum_assignment

# Arrays of JAX or NumPy.
_Either = Array | np.ndarray
Maps = Float[_Either, "batch heads queries keys"]
Mask = Bool[_Either, "batch queries"]


@jax.jit
def head_distances(
  first: Maps, second: Float[_Either, "batch others queries keys"], mask: Mask
) -> Float[Array, "batch heads others"]:
  """Returns the distance of each head of one network to each head of the other, for each input.

  Args:
    first, second: the attention weights of one layer of both networks, for the same inputs.
    mask: False for padding; padding must get no attention, which `models.attention.attend` guarantees.
  """
  first, second = (jnp.asarray(maps, jnp.float32) for maps in (first, second))
  real = mask[:, None, :]
  count = jnp.maximum(1, mask.sum(1))[:, None]

  # One head after the other, because all differences at once take as much memory as all heads x heads maps.
  def to_all(head: jax.Array) -> jax.Array:
    rows = jnp.abs(first - head[:, None]).sum(-1)
    return jnp.where(real, rows, 0).sum(-1) / count

  return jnp.moveaxis(jax.lax.map(to_all, jnp.moveaxis(second, 1, 0)), 0, 2)


@jax.jit
def distances_from_uniform(maps: Maps, mask: Mask) -> Float[Array, "batch heads"]:
  """Returns the distance of each head to attention that is the same for all tokens, for each input.

  It is a measure of comparison: two networks of which both attend to everything alike are near each other, too.

  Args:
    maps: the attention weights of one layer.
    mask: False for padding.
  """
  count = jnp.maximum(1, mask.sum(1))
  uniform = jnp.where(mask, 1 / count[:, None], 0)[:, None, None, :]
  return head_distances(maps, jnp.broadcast_to(uniform, (len(maps), 1, *maps.shape[2:])), mask)[
    :, :, 0
  ]


def matched_distance(
  distances: Float[np.ndarray, "batch heads others"],
) -> Float[np.ndarray, " batch"]:
  """Returns for each input the mean distance of the heads to those that they are matched with.

  If one network has more heads, some of them stay without a partner and do not count.

  Args:
    distances: as `head_distances` returns them.
  """
  return np.array([one[linear_sum_assignment(one)].mean() for one in distances])
