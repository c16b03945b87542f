"""Scaled dot-product attention (Vaswani et al. 2017) with dropout on the weights, as BERT is trained."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from discipline_jax.models.layers import dropout
from discipline_jax.models.products import matmul, transpose


def attend(
  query: Float[Array, "batch queries hidden"],
  key: Float[Array, "batch length hidden"],
  value: Float[Array, "batch length hidden"],
  allowed: Bool[Array, "batch 1 1 length"] | None,
  *,
  num_heads: int,
  dropout_key: jax.Array | None,
  dropout_rate: float,
) -> tuple[Float[Array, "batch queries hidden"], Float[Array, "batch heads queries length"]]:
  """Mixes the values of each head's allowed positions.

  Args:
    query, key, value: projections of all heads side by side; hidden = num_heads * head size.
    allowed: False where a key is padding.
    num_heads: static.
    dropout_key: one PRNG key, or None for no dropout.
    dropout_rate: share of the weights that are set to zero.

  Returns:
    The context, and the weights before dropout. Softmax is taken in float32.
  """

  def heads(x):
    return x.reshape(*x.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

  query, key, value = heads(query), heads(key), heads(value)
  scores = matmul(query * query.shape[-1] ** -0.5, transpose(key)).astype(jnp.float32)
  if allowed is not None:
    # The most negative finite number: a row that is padding alone gives even weights, not NaN.
    scores = jnp.where(allowed, scores, jnp.finfo(jnp.float32).min)
  weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
  context = matmul(dropout(dropout_key, weights, dropout_rate), value).transpose(0, 2, 1, 3)
  return context.reshape(*context.shape[:2], -1), weights
