"""The small modules and functions that every encoder here is made of.

Parameters have the names *and layouts* of Hugging Face's checkpoints (`weight` of a dense layer is
[out, in]), so a state of ours and a state dict of theirs can be read side by side, and a checkpoint
is loaded without a transposition. Weights are float32; arithmetic runs in the dtype of the input.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, UInt32

from discipline_jax.models.products import linear

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  "gelu": lambda x: 0.5 * x * (1 + jax.lax.erf(x * 0.5**0.5)),
  "gelu_new": lambda x: jax.nn.gelu(x, approximate=True),
  "relu": jax.nn.relu,
  "silu": jax.nn.silu,
}


def _normal(rngs: nnx.Rngs, shape: tuple[int, ...], std: float) -> nnx.Param:
  return nnx.Param(std * jax.random.normal(rngs.params(), shape, jnp.float32))


class Linear(nnx.Module):
  """x @ weight.T + bias."""

  def __init__(self, in_features: int, out_features: int, *, std: float, rngs: nnx.Rngs):
    self.weight = _normal(rngs, (out_features, in_features), std)
    self.bias = nnx.Param(jnp.zeros(out_features, jnp.float32))

  def __call__(self, x: Float[Array, "*batch in"]) -> Float[Array, "*batch out"]:
    y = linear(x, self.weight[...].astype(x.dtype))
    bias = self.bias[...].astype(x.dtype)
    return y + bias.reshape((1,) * (y.ndim - 1) + bias.shape)


class Embedding(nnx.Module):
  """A table of `num_embeddings` rows."""

  def __init__(self, num_embeddings: int, features: int, *, std: float, rngs: nnx.Rngs):
    self.weight = _normal(rngs, (num_embeddings, features), std)

  def __call__(self, ids: Int[Array, "*batch"]) -> Float[Array, "*batch features"]:
    return jnp.take(self.weight[...], ids, axis=0, mode="clip")


class LayerNorm(nnx.Module):
  """Ba et al. 2016, over the last axis, in float32 whatever the input is."""

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
    return jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + self.eps)


class RootLayerNorm(LayerNorm):
  """PLUS-TFM's, which divides by the square root of the (unbiased) standard deviation."""

  def _scale(self, centred: jax.Array) -> jax.Array:
    variance = jnp.square(centred).sum(-1, keepdims=True) / (centred.shape[-1] - 1)
    return jax.lax.rsqrt(jnp.sqrt(variance) + self.eps)


def dropout(
  key: jax.Array | None, x: Float[Array, "*shape"], rate: float
) -> Float[Array, "*shape"]:
  """Sets a share of `x` to zero and scales the rest so that the expectation is unchanged.

  The random bits are `hash_bits`, which XLA computes inside the loop that uses them: drawing them with
  `jax.random.bernoulli` is a visible part of a training step on CPU, and writes the mask to memory.

  Args:
    key: one PRNG key, or None for no dropout (evaluation).
    x: any shape of less than 2^32 elements.
    rate: static probability of a zero, exact to 2^-32.
  """
  if key is None or rate == 0:
    return x
  kept = hash_bits(key, x.shape) >= jnp.uint32(rate * 2**32)
  return jnp.where(kept, x * (1 / (1 - rate)), jnp.zeros((), x.dtype))


def split_key(key: jax.Array | None, num: int) -> list[jax.Array | None]:
  """Keys for the parts of a module; none of them has one where the whole has none."""
  return [None] * num if key is None else list(jax.random.split(key, num))


def hash_bits(key: jax.Array, shape: tuple[int, ...]) -> UInt32[Array, "*shape"]:
  """Random bits for dropout: a hash of each element's index, keyed by the 64 bits of `key`.

  The mixer is "lowbias32" (C. Wellons, "Prospecting for hash functions", 2018; multipliers 0x7feb352d
  and 0x846ca68b): two multiplications and three shifts against the twenty rounds of threefry.
  Good enough to drop units, not for anything that must withstand an adversary. The bits of an element
  depend on its index alone, so every sharding of `x` gives the same mask.
  """
  low, high = jax.random.key_data(key).astype(jnp.uint32)[-2:]
  index = jnp.zeros(shape, jnp.uint32)
  stride = 1
  for axis in reversed(range(len(shape))):
    index = index + jax.lax.broadcasted_iota(jnp.uint32, shape, axis) * jnp.uint32(stride)
    stride *= shape[axis]
  bits = index * jnp.uint32(0x9E3779B9) + low
  bits = (bits ^ (bits >> 16)) * jnp.uint32(0x7FEB352D)
  bits = (bits ^ (bits >> 15) ^ high) * jnp.uint32(0x846CA68B)
  return bits ^ (bits >> 16)
