"""Scaled dot-product attention (Vaswani et al. 2017) with dropout on the attention weights, as in BERT.

Without dropout, and if the caller does not need the weights, a GPU can use one fused kernel of cuDNN, which does not
write the weights to memory. `attend` chooses.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from discipline_jax.models.layers import dropout
from discipline_jax.models.platform import Platform
from discipline_jax.models.products import matmul, transpose

# True or 1 for tokens, False or 0 for padding.
AttentionMask = Bool[Array, "batch length"] | Int[Array, "batch length"]


def attend(
  query: Float[Array, "batch queries hidden"],
  key: Float[Array, "batch length hidden"],
  value: Float[Array, "batch length hidden"],
  allowed: Bool[Array, "#batch 1 #queries length"] | None,
  *,
  num_heads: int,
  platform: Platform,
  dropout_key: jax.Array | None,
  dropout_rate: float,
  need_weights: bool = True,
) -> tuple[Float[Array, "batch queries hidden"], Float[Array, "batch heads queries length"] | None]:
  """Returns, for each query and head, the average of the values weighted by attention.

  Args:
    query, key, value: projections of all heads side by side; hidden = num_heads * head size.
    allowed: False if the query must not see the key (padding, or a later position in a left-to-right model).
    num_heads: number of heads; static.
    platform: platform that the program is compiled for; static.
    dropout_key: one PRNG key, or None for no dropout.
    dropout_rate: share of the weights that are set to zero. With 0, a GPU can use the fused kernel in training too.
    need_weights: whether to return the weights.

  Returns:
    The context, and the weights before dropout (None unless `need_weights`). The softmax is computed in float32.
  """
  if (
    dropout_rate == 0
    and not need_weights
    and _has_kernel(platform, query.dtype, query.shape, num_heads)
  ):
    return _fused(query, key, value, allowed, num_heads, "cudnn"), None

  def heads(x):
    return x.reshape(*x.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

  query, key, value = heads(query), heads(key), heads(value)
  scores = matmul(query * query.shape[-1] ** -0.5, transpose(key), platform)
  scores = scores.astype(jnp.float32)
  if allowed is not None:
    # A finite number instead of -inf: a row of padding alone gets equal weights, not NaN.
    scores = jnp.where(allowed, scores, jnp.finfo(jnp.float32).min)
  weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
  context = matmul(dropout(dropout_key, weights, dropout_rate), value, platform)
  context = context.transpose(0, 2, 1, 3)
  return context.reshape(*context.shape[:2], -1), weights if need_weights else None


def _has_kernel(
  platform: Platform, dtype: jnp.dtype, shape: tuple[int, ...], num_heads: int
) -> bool:
  """Returns whether cuDNN's kernel can be used: NVIDIA GPUs since Ampere, 16-bit dtypes, head sizes up to 128."""
  if platform.name != "gpu" or dtype not in (jnp.bfloat16, jnp.float16):
    return False
  head_size = shape[-1] // num_heads
  generation = platform.compute_capability.partition(".")[0]
  is_recent = generation.isdigit() and int(generation) >= 8
  return is_recent and head_size % 8 == 0 and head_size <= 128 and shape[1] > 1


def _fused(
  query: jax.Array,
  key: jax.Array,
  value: jax.Array,
  allowed: jax.Array | None,
  num_heads: int,
  implementation: Literal["cudnn", "xla"],
) -> jax.Array:
  """Returns the context of all heads, computed by `jax.nn.dot_product_attention`."""

  def heads(x: jax.Array) -> jax.Array:
    return x.reshape(*x.shape[:2], num_heads, -1)

  mask = None
  if allowed is not None:
    # The kernel gives NaN for a query that sees no key, so such a query sees all keys.
    allowed = allowed | ~allowed.any(-1, keepdims=True)
    mask = jnp.broadcast_to(allowed, (len(query), 1, query.shape[1], key.shape[1]))
  context = jax.nn.dot_product_attention(
    heads(query), heads(key), heads(value), mask=mask, implementation=implementation
  )
  return context.reshape(query.shape)
