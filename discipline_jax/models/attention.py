"""Scaled dot-product attention (Vaswani et al. 2017) with dropout on the attention weights, as in BERT.

Without dropout, and if the caller does not need the weights, a GPU can use one fused kernel of cuDNN, which does not
write the weights to memory. `attend` chooses.
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from discipline_jax.models.layers import dropout, recomputed_dropout
from discipline_jax.models.platform import Platform
from discipline_jax.models.products import matmul, transpose

# True or 1 for tokens, False or 0 for padding; or the number of tokens of each row, all padding at its end.
AttentionMask = Bool[Array, "batch length"] | Int[Array, "batch length"] | Int[Array, " batch"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Visible:
  """Says which keys each query may see.

  Attributes:
    allowed: Bool [#batch, 1, #queries, length], False if the query must not see the key (padding, or a later position
      in a left-to-right model); None if it may see all.
    lengths: Int32 [batch], the number of keys of each row that are no padding, if all padding is at the end; None if
      there is none, or it may be anywhere.
    is_padded: whether there may be padding; static.
    is_causal: whether later positions are hidden; static.
  """

  allowed: jax.Array | None
  lengths: jax.Array | None
  is_padded: bool = dataclasses.field(metadata={"static": True})
  is_causal: bool = dataclasses.field(metadata={"static": True})

  @classmethod
  def of(cls, attention_mask: AttentionMask | None, length: int, *, is_causal: bool) -> "Visible":
    """Makes it from the mask of an encoder's inputs, for rows of `length` positions."""
    mask = token_mask(attention_mask, length)
    allowed = None if mask is None else mask[:, None, None, :]
    if is_causal:
      before = jnp.tri(length, dtype=bool)[None, None]
      allowed = before if allowed is None else before & allowed
    is_prefix = attention_mask is not None and attention_mask.ndim == 1
    return cls(allowed, attention_mask if is_prefix else None, mask is not None, is_causal)

  @property
  def fits_kernel(self) -> bool:
    """Returns whether a fused kernel can hide what must be hidden, without an array of all queries and keys."""
    return not self.is_padded or self.lengths is not None


def token_mask(
  attention_mask: AttentionMask | None, length: int
) -> Bool[Array, "batch length"] | None:
  """Returns the mask of an encoder's inputs in its long form; None if there is no padding."""
  if attention_mask is None:
    return None
  if attention_mask.ndim == 1:
    return jnp.arange(length)[None] < attention_mask[:, None]
  return attention_mask.astype(bool)


def attend(
  query: Float[Array, "batch queries hidden"],
  key: Float[Array, "batch length hidden"],
  value: Float[Array, "batch length hidden"],
  visible: Visible,
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
    visible: which keys each query may see.
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
    and visible.fits_kernel
    and _has_kernel(platform, query.dtype, query.shape, num_heads)
  ):
    return _fused(query, key, value, visible, num_heads, "cudnn"), None

  def heads(x):
    return x.reshape(*x.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

  query, key, value = heads(query), heads(key), heads(value)
  scores = matmul(query * query.shape[-1] ** -0.5, transpose(key), platform)
  scores = scores.astype(jnp.float32)
  if visible.allowed is not None:
    # A finite number instead of -inf: a row of padding alone gets equal weights, not NaN.
    scores = jnp.where(visible.allowed, scores, jnp.finfo(jnp.float32).min)
  weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
  # On a GPU, XLA would keep the mask of each layer: a byte for each weight.
  drop = recomputed_dropout if platform.name == "gpu" else dropout
  context = matmul(drop(dropout_key, weights, dropout_rate), value, platform)
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
  visible: Visible,
  num_heads: int,
  implementation: Literal["cudnn", "xla"],
) -> jax.Array:
  """Returns the context of all heads, computed by `jax.nn.dot_product_attention`."""

  # cuDNN trains with even numbers of queries and keys alone.
  is_odd = (query.shape[1] | key.shape[1]) % 2 == 1

  def heads(x: jax.Array) -> jax.Array:
    x = jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, 0)))
    return x.reshape(*x.shape[:2], num_heads, -1)

  # As lengths and not as a mask, which cuDNN takes for a bias: it would write the bias's gradient, and cannot take one
  # over replicas.
  lengths: dict[str, Any] = {}
  if visible.lengths is not None or is_odd:
    # Both are made of an input, because under `vmap` they must have the axis of the replicas.
    none = 0 * query[:, 0, 0].astype(jnp.int32)
    real = none + key.shape[1] if visible.lengths is None else visible.lengths.astype(jnp.int32)
    lengths = {
      "key_value_seq_lengths": none + jnp.maximum(1, real),  # it gives NaN for a query without keys
      "query_seq_lengths": none + query.shape[1],
    }
  context = jax.nn.dot_product_attention(
    heads(query),
    heads(key),
    heads(value),
    is_causal=visible.is_causal,
    implementation=implementation,
    **lengths,
  )
  return context[:, : query.shape[1]].reshape(query.shape)
