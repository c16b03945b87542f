"""Measures how far a network's output moves if noise is added to all of its weights."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array, Float, Float32


@jax.jit
def add_noise(
  params: dict, key: jax.Array, scale: Float[Array, ""]
) -> tuple[dict, Float32[Array, ""]]:
  """Returns the weights plus normal noise, and the share of the weights that rounding leaves as they were.

  The noise of a weight depends on its place among the sorted names, its shape and the key, so that networks with the
  same names and shapes get the same noise.

  Args:
    params: nested dict of weights.
    key: PRNG key of the noise.
    scale: standard deviation of the noise, a scalar.
  """
  leaves = flatten_dict(params)
  noisy, same = {}, jnp.zeros((), jnp.float32)
  for number, path in enumerate(sorted(leaves, key=str)):
    leaf = leaves[path]
    noise = jax.random.normal(jax.random.fold_in(key, number), leaf.shape, leaf.dtype)
    noisy[path] = leaf + scale * noise
    same += (noisy[path] == leaf).sum().astype(jnp.float32)
  return unflatten_dict(noisy), same / sum(leaf.size for leaf in leaves.values())


def distances(
  outputs: Callable[[dict], Float[np.ndarray, "inputs hidden"]],
  params: dict,
  *,
  scales: tuple[float, ...],
  repeats: int,
  seed: int,
) -> tuple[Float[np.ndarray, "scales repeats inputs"], Float[np.ndarray, " scales"]]:
  """Returns the L2 distances between the outputs with and without noise, and how much of the noise rounding swallows.

  Args:
    outputs: a function from weights to the network's outputs [inputs, hidden]. It has no dropout, because that would
      differ between two passes.
    params: nested dict of the network's weights.
    scales: standard deviations of the noise.
    repeats: draws of noise for each scale; the same ones for all scales.
    seed: seed of the noise.

  Returns:
    The distances (float64), and for each scale the share of the weights that the noise does not change in float32.
    Where it is large, the distance says more about rounding than about the network.
  """
  plain = np.asarray(outputs(params), np.float64)
  moved, swallowed = np.zeros((len(scales), repeats, len(plain))), np.zeros(len(scales))
  for i, scale in enumerate(scales):
    for repeat in range(repeats):
      key = jax.random.fold_in(jax.random.key(seed), repeat)
      noisy, same = add_noise(params, key, jnp.float32(scale))
      moved[i, repeat] = np.linalg.norm(np.asarray(outputs(noisy), np.float64) - plain, axis=-1)
      swallowed[i] += float(same) / repeats
  return moved, swallowed
