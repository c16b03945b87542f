"""The layers and functions that the encoders are built of.

Parameters have the names *and layouts* of Hugging Face's checkpoints (`weight` of a dense layer is [out, in]). So
both can be compared side by side, and a checkpoint is loaded without transposing. Weights are float32; the arithmetic
runs in the dtype of the input.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, UInt32

from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.platform import Platform, per_copy, split_features
from discipline_jax.models.products import linear

_NUMBERED = 1 << 32  # elements that can be told apart by 32 bits

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  "gelu": lambda x: 0.5 * x * (1 + jax.lax.erf(x * 0.5**0.5)),
  "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
  "relu": jax.nn.relu,
  "silu": jax.nn.silu,
}


def _normal(rngs: Rngs, shape: tuple[int, ...], std: float) -> nnx.Param:
  return nnx.Param(std * jax.random.normal(rngs.params(), shape, jnp.float32))


class Linear(nnx.Module):
  """A dense layer: x @ weight.T + bias."""

  def __init__(self, in_features: int, out_features: int, *, std: float, rngs: Rngs):
    self.weight = _normal(rngs, (out_features, in_features), std)
    self.bias = nnx.Param(jnp.zeros(out_features, jnp.float32))
    # `model.set_attributes(platform=...)` changes it in a whole model.
    self.platform = Platform.default()

  def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
    y = linear(x, self.weight[...].astype(x.dtype), self.platform)
    # Spread before the cast: the gradient is a sum over all rows, which would lose its digits in bfloat16.
    return y + jnp.broadcast_to(self.bias[...], y.shape).astype(x.dtype)


class Embedding(nnx.Module):
  """A table with one vector for each of `num_embeddings` ids."""

  def __init__(self, num_embeddings: int, features: int, *, std: float, rngs: Rngs):
    self.weight = _normal(rngs, (num_embeddings, features), std)
    self.platform = Platform.default()  # see `Linear`

  def __call__(self, ids: Int[Array, "*batch"]) -> Float[Array, "*batch features"]:
    table = split_features(self.weight[...], self.platform)
    return per_copy(lambda table, ids: jnp.take(table, ids, axis=0, mode="clip"), table, ids)


class LayerNorm(nnx.Module):
  """Layer normalization (Ba et al. 2016) over the last axis, computed in float32 for every input dtype."""

  def __init__(self, features: int, *, eps: float):
    self.weight = nnx.Param(jnp.ones(features, jnp.float32))
    self.bias = nnx.Param(jnp.zeros(features, jnp.float32))
    self.eps = eps

  def __call__(self, x: Float[Array, "*batch features"]) -> Float[Array, "*batch features"]:
    x32 = x.astype(jnp.float32)
    centred = x32 - x32.mean(-1, keepdims=True)
    lead = (1,) * (x.ndim - 1) + x.shape[-1:]
    y = centred * self._scale(centred) * self.weight[...].reshape(lead) + self.bias[...].reshape(
      lead
    )
    return y.astype(x.dtype)

  def _scale(self, centred: jax.Array) -> jax.Array:
    """Returns the factor for the centred input: one over the standard deviation."""
    return jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + self.eps)


class RootLayerNorm(LayerNorm):
  """Layer normalization of PLUS-TFM, which divides by the square root of the (unbiased) standard deviation."""

  def _scale(self, centred: jax.Array) -> jax.Array:
    variance = jnp.square(centred).sum(-1, keepdims=True) / (centred.shape[-1] - 1)
    return jax.lax.rsqrt(jnp.sqrt(variance) + self.eps)


def dropout(
  key: jax.Array | None, x: Float[Array, "*shape"], rate: float
) -> Float[Array, "*shape"]:
  """Sets a random share of `x` to zero, and scales the rest so that the expected value does not change.

  The random bits come from `hash_bits`, which XLA computes inside the loop that uses them. `jax.random.bernoulli`
  would write the mask to memory, and would take a noticeable part of a training step on CPU.

  Args:
    key: one PRNG key, or None for no dropout (evaluation).
    x: any shape.
    rate: probability of a zero, exact to 2^-32; static.
  """
  if key is None or rate == 0:
    return x
  kept = hash_bits(key, x.shape) >= jnp.uint32(rate * 2**32)
  # In float32, because bfloat16 would round the factor itself, and so scale all of `x` wrongly.
  scaled = (x.astype(jnp.float32) * (1 / (1 - rate))).astype(x.dtype)
  return jnp.where(kept, scaled, jnp.zeros((), x.dtype))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def recomputed_dropout(
  key: jax.Array | None, x: Float[Array, "*shape"], rate: float
) -> Float[Array, "*shape"]:
  """Returns what `dropout` returns, and computes the mask again for the gradient instead of keeping it in memory.

  It has no forward-mode derivative.
  """
  return dropout(key, x, rate)


def _recomputed_backward(rate: float, key: jax.Array | None, gradient: jax.Array):
  if key is not None and rate > 0:
    # Behind the barrier, which waits for the gradient, XLA cannot see that this mask is the one it had before.
    data, gradient = jax.lax.optimization_barrier((jax.random.key_data(key), gradient))
    key = jax.random.wrap_key_data(data, impl=jax.random.key_impl(key))
  return None, dropout(key, gradient, rate)  # linear and diagonal, hence its own transpose


recomputed_dropout.defvjp(lambda key, x, rate: (dropout(key, x, rate), key), _recomputed_backward)


def split_key(key: jax.Array | None, num: int) -> list[jax.Array | None]:
  """Returns one key for each of `num` parts of a module; all of them are None if `key` is None."""
  return [None] * num if key is None else list(jax.random.split(key, num))


def hash_bits(key: jax.Array, shape: tuple[int, ...]) -> UInt32[Array, "*shape"]:
  """Returns random bits for dropout: a hash of each element's index, keyed by the 64 bits of `key`.

  The mixer is "lowbias32" (C. Wellons, "Prospecting for hash functions", 2018; multipliers 0x7feb352d
  and 0x846ca68b). It needs two multiplications and three shifts, while threefry needs twenty rounds. It is good enough
  for dropout, but is not cryptographic. The bits of an element depend only on its index and the key, so every sharding
  gives the same mask.
  """
  low, high = jax.random.key_data(key).astype(jnp.uint32)[-2:]
  # The axes whose elements 32 bits can number; those before them, if any, choose a key of their own.
  first = next(axis for axis in range(len(shape) + 1) if math.prod(shape[axis:]) <= _NUMBERED)
  index = _index(shape, range(first, len(shape)))
  if first:
    high = high ^ _index(shape, range(first)) * jnp.uint32(0x85EBCA6B)  # from MurmurHash3's mixer
  bits = index * jnp.uint32(0x9E3779B9) + low
  bits = (bits ^ (bits >> 16)) * jnp.uint32(0x7FEB352D)
  bits = (bits ^ (bits >> 15) ^ high) * jnp.uint32(0x846CA68B)
  return bits ^ (bits >> 16)


def _index(shape: tuple[int, ...], axes: range) -> UInt32[Array, "*shape"]:
  """Returns the number of each element among those that differ in `axes` alone."""
  index, stride = jnp.zeros(shape, jnp.uint32), 1
  for axis in reversed(axes):
    index = index + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
    stride *= shape[axis]
  return index
