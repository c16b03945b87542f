"""Scaled dot-product attention (Vaswani et al. 2017) with dropout on the weights, as BERT is trained.

Where nothing is dropped out and the weights are not asked for, a GPU computes it in one kernel that writes no weights
to memory; `attend` chooses.
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from discipline_jax.models.layers import dropout
from discipline_jax.models.products import matmul, transpose


def attend(
  query: Float[Array, "batch queries hidden"],
  key: Float[Array, "batch length hidden"],
  value: Float[Array, "batch length hidden"],
  allowed: Bool[Array, "#batch 1 #queries length"] | None,
  *,
  num_heads: int,
  dropout_key: jax.Array | None,
  dropout_rate: float,
  need_weights: bool = True,
) -> tuple[Float[Array, "batch queries hidden"], Float[Array, "batch heads queries length"] | None]:
  """Mixes the values of each head's allowed positions.

  Args:
    query, key, value: projections of all heads side by side; hidden = num_heads * head size.
    allowed: False where a query must not see a key: padding, or what follows in a left-to-right model.
    num_heads: static.
    dropout_key: one PRNG key, or None for no dropout.
    dropout_rate: share of the weights that are set to zero; 0 lets a GPU use its kernel in training and evaluation.
    need_weights: whether the weights are looked at.

  Returns:
    The context, and the weights before dropout, or None where they are not needed. Softmax is taken in float32.
  """
  if dropout_rate == 0 and not need_weights and _has_kernel(query.dtype, query.shape, num_heads):
    return _fused(query, key, value, allowed, num_heads, "cudnn"), None

  def heads(x):
    return x.reshape(*x.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

  query, key, value = heads(query), heads(key), heads(value)
  scores = matmul(query * query.shape[-1] ** -0.5, transpose(key)).astype(jnp.float32)
  if allowed is not None:
    # The most negative finite number: a row that is padding alone gives even weights, not NaN.
    scores = jnp.where(allowed, scores, jnp.finfo(jnp.float32).min)
  weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
  context = matmul(dropout(dropout_key, weights, dropout_rate), value).transpose(0, 2, 1, 3)
  return context.reshape(*context.shape[:2], -1), weights if need_weights else None


def _has_kernel(dtype: jnp.dtype, shape: tuple[int, ...], num_heads: int) -> bool:
  """Whether the device has cuDNN's kernel for it: NVIDIA's since Ampere, 16-bit numbers, heads of at most 128."""
  if jax.default_backend() != "gpu" or dtype not in (jnp.bfloat16, jnp.float16):
    return False
  head_size = shape[-1] // num_heads
  generation = str(getattr(jax.devices()[0], "compute_capability", "")).partition(".")[0]
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
  def heads(x: jax.Array) -> jax.Array:
    return x.reshape(*x.shape[:2], num_heads, -1)

  mask = None
  if allowed is not None:
    # A row without any token attends to all places: the kernel would give NaN.
    allowed = allowed | ~allowed.any(-1, keepdims=True)
    mask = jnp.broadcast_to(allowed, (len(query), 1, query.shape[1], key.shape[1]))
  context = jax.nn.dot_product_attention(
    heads(query), heads(key), heads(value), mask=mask, implementation=implementation
  )
  return context.reshape(query.shape)
