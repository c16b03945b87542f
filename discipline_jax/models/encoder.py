"""The encoder of BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), ALBERT (Lan et al. 2020) and PLUS-TFM (Min et
al. 2019) in Flax NNX.

The path of a parameter in `nnx.state(Encoder(...))`, joined by dots, is its name in a checkpoint of
`transformers.BertModel`: `encoder.layer.0.attention.self.query.weight`. What the other families call it is told in
`models.names`.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Float32, Int

from discipline_jax.models.attention import attend
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.layers import (
  ACTIVATIONS,
  Embedding,
  LayerNorm,
  Linear,
  RootLayerNorm,
  dropout,
  split_key,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EncoderOutput:
  """Under Hugging Face's names.

  Attributes:
    last_hidden_state: [batch, length, hidden]; with `first_only` [batch, 1, hidden], with `positions` [batch,
      1 + positions, hidden].
    pooler_output: [batch, hidden], tanh of a dense layer on the first position (of a left-to-right model, on the last
      token); None without a pooler.
    hidden_states: None, or the embeddings and the output of every layer that is run.
    attentions: None, or every layer's attention weights after softmax [batch, heads, length, length].
  """

  last_hidden_state: Float[Array, "batch length hidden"]
  pooler_output: Float[Array, "batch hidden"] | None
  hidden_states: tuple[jax.Array, ...] | None = None
  attentions: tuple[jax.Array, ...] | None = None

  @property
  def summary(self) -> Float[Array, "batch hidden"]:
    """What stands for a whole row: the pooled output, or without a pooler the first position."""
    return self.last_hidden_state[:, 0] if self.pooler_output is None else self.pooler_output


class Encoder(nnx.Module):
  """Token ids in, one vector a token out. `dtype` is the dtype of the arithmetic; weights stay float32."""

  def __init__(
    self,
    config: ModelConfig,
    *,
    rngs: nnx.Rngs,
    dtype: jnp.dtype = jnp.float32,
    add_pooling_layer: bool = True,
    remat: bool = False,
  ):
    """Args:
    config: sizes.
    rngs: draws the weights.
    dtype: of the arithmetic.
    add_pooling_layer: whether there is a pooler, where the family has one.
    remat: compute a layer's inside again for its gradient, which takes a third more time and much less memory.
    """
    self.config = config
    self.dtype = dtype
    self.remat = remat
    self.source: pathlib.Path | None = None  # the checkpoint that `models.load` took it from
    self.embeddings = Embeddings(config, rngs)
    self.encoder = Layers(config, rngs)
    self.pooler = Pooler(config, rngs) if add_pooling_layer and config.has_pooler else None

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: Int[Array, "batch length"] | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
    first_only: bool = False,
    positions: Int[Array, "batch positions"] | None = None,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
  ) -> EncoderOutput:
    """Runs the encoder.

    Args:
      ids: rows of the word-embedding table.
      attention_mask: 1 for tokens, 0 for padding; all ones by default. RoBERTa's positions are counted over the
        tokens that it marks (in transformers, over those that are not `pad_token_id`).
      token_type_ids: segment of each token; zeros by default, and for a model of one segment.
      dropout_key: one PRNG key; None turns dropout off.
      first_only: let the last layer compute the first position alone. What a classifier reads is the
        same, and the rest of that layer's queries and its feed-forward network are not paid for.
      positions: let the last layer compute the first position and then these, likewise: all that pre-training reads.
      output_hidden_states: keep every layer's output.
      output_attentions: keep every layer's attention weights.
    """
    if ids.shape[1] > self.config.max_length:
      raise ValueError(
        f"{ids.shape[1]} tokens a row, but the model has positions for {self.config.max_length}; cut the sequences"
      )
    if token_type_ids is None or self.config.type_vocab_size == 1:
      token_type_ids = jnp.zeros_like(ids)
    mask = None if attention_mask is None else attention_mask.astype(bool)
    allowed = None if mask is None else mask[:, None, None, :]
    if self.config.is_decoder:
      before = jnp.tri(ids.shape[1], dtype=bool)[None, None]
      allowed = before if allowed is None else before & allowed
      first_only, positions = False, None  # what stands for a row is its last token
    order = self.config.layer_order
    keys = split_key(dropout_key, len(order) + 1)
    x = self.embeddings(ids, token_type_ids, mask, keys[0]).astype(self.dtype)
    x = self.encoder.project(x)
    hidden_states, attentions = [x], []
    for layer, key in zip(order, keys[1:], strict=True):
      is_last = len(hidden_states) == len(order)
      queries = _chosen(x, first_only, positions) if is_last else x
      run: Callable = partial(Layer.__call__, need_weights=output_attentions)
      run = jax.checkpoint(run) if self.remat else run
      x, weights = run(self.encoder.layer[layer], x, queries, allowed, key)
      hidden_states.append(x)
      attentions.append(weights)
    return EncoderOutput(
      last_hidden_state=x,
      pooler_output=None if self.pooler is None else self.pooler(self._summary(x, mask)),
      hidden_states=tuple(hidden_states) if output_hidden_states else None,
      attentions=tuple(attentions) if output_attentions else None,
    )

  def _summary(self, x: jax.Array, mask: jax.Array | None) -> Float[Array, "batch hidden"]:
    """The token that stands for a row: the first, or the last where none sees what follows it."""
    if not self.config.is_decoder:
      return x[:, 0]
    if mask is None:
      return x[:, -1]
    last = (mask * jnp.arange(x.shape[1])[None]).argmax(1)
    return jnp.take_along_axis(x, last[:, None, None], axis=1)[:, 0]


def _chosen(
  x: Float[Array, "batch length hidden"],
  first_only: bool,
  positions: Int[Array, "batch positions"] | None,
) -> Float[Array, "batch queries hidden"]:
  """The positions that the last layer computes."""
  if first_only:
    return x[:, :1]
  if positions is None:
    return x
  others = jnp.take_along_axis(x, positions[..., None], axis=1)
  return jnp.concatenate([x[:, :1], others], axis=1)


class Embeddings(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    std, size = config.initializer_range, config.embedding_features
    self.word_embeddings = Embedding(config.vocab_size, size, std=std, rngs=rngs)
    if not config.has_sinusoids:
      self.position_embeddings = Embedding(config.max_position_embeddings, size, std=std, rngs=rngs)
    self.token_type_embeddings = Embedding(config.type_vocab_size, size, std=std, rngs=rngs)
    self.LayerNorm = layer_norm(config, size)
    self.dropout_rate = config.hidden_dropout_prob
    self.first_position = config.first_position

  def __call__(
    self,
    ids: jax.Array,
    token_type_ids: jax.Array,
    mask: jax.Array | None,
    key: jax.Array | None,
  ) -> jax.Array:
    x = self.word_embeddings(ids) + self.token_type_embeddings(token_type_ids)
    x = x + self._positions(ids.shape[1], mask)
    return dropout(key, self.LayerNorm(x), self.dropout_rate)

  def _positions(
    self, length: int, mask: jax.Array | None
  ) -> Float[Array, "batch length features"]:
    if not hasattr(self, "position_embeddings"):
      return jnp.asarray(sinusoids(length, self.word_embeddings.weight.shape[1]))[None]
    if self.first_position == 0 or mask is None:
      rows = slice(self.first_position, self.first_position + length)
      return self.position_embeddings.weight[...][None, rows]
    # RoBERTa: padding has a row of its own, the one before the first, wherever it stands.
    return self.position_embeddings(jnp.cumsum(mask, axis=1) * mask + self.first_position - 1)


class Layers(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    if config.embedding_size is not None:
      self.embedding_hidden_mapping_in = Linear(
        config.embedding_size, config.hidden_size, std=config.initializer_range, rngs=rngs
      )
    self.layer = nnx.List([Layer(config, rngs) for _ in range(max(config.layer_order) + 1)])

  def project(self, x: jax.Array) -> jax.Array:
    """ALBERT's step from the width of the embeddings to that of the layers."""
    return (
      self.embedding_hidden_mapping_in(x) if hasattr(self, "embedding_hidden_mapping_in") else x
    )


class Layer(nnx.Module):
  """Self-attention and a feed-forward network, each with a residual and LayerNorm after it."""

  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.attention = Attention(config, rngs)
    self.intermediate = Intermediate(config, rngs)
    self.output = AddAndNorm(
      config.intermediate_size, config.feed_forward_dropout_prob, config, rngs
    )

  # A program of its own, which is traced and lowered once for all layers of the same sizes: with it twelve
  # layers start as fast as two.
  @partial(jax.jit, static_argnames="need_weights")
  def __call__(
    self,
    x: Float[Array, "batch length hidden"],
    queries: Float[Array, "batch queries hidden"],
    allowed: Bool[Array, "#batch 1 #queries length"] | None,
    key: jax.Array | None,
    *,
    need_weights: bool = False,
  ) -> tuple[jax.Array, jax.Array | None]:
    weights_key, attention_key, output_key = split_key(key, 3)
    context, weights = self.attention.self(x, queries, allowed, weights_key, need_weights)
    x = self.attention.output(context, queries, attention_key)
    return self.output(self.intermediate(x), x, output_key), weights


class Attention(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.self = SelfAttention(config, rngs)
    self.output = AddAndNorm(config.hidden_size, config.hidden_dropout_prob, config, rngs)


class SelfAttention(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    size, std = config.hidden_size, config.initializer_range
    self.query = Linear(size, size, std=std, rngs=rngs)
    self.key = Linear(size, size, std=std, rngs=rngs)
    self.value = Linear(size, size, std=std, rngs=rngs)
    self.num_heads = config.num_attention_heads
    self.dropout_rate = config.attention_probs_dropout_prob

  def __call__(
    self,
    x: jax.Array,
    queries: jax.Array,
    allowed: jax.Array | None,
    key: jax.Array | None,
    need_weights: bool,
  ) -> tuple[
    Float[Array, "batch queries hidden"], Float[Array, "batch heads queries length"] | None
  ]:
    return attend(
      self.query(queries),
      self.key(x),
      self.value(x),
      allowed,
      num_heads=self.num_heads,
      dropout_key=key,
      dropout_rate=self.dropout_rate,
      need_weights=need_weights,
    )


class Intermediate(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.dense = Linear(
      config.hidden_size, config.intermediate_size, std=config.initializer_range, rngs=rngs
    )
    self.activation = ACTIVATIONS[config.hidden_act]

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.activation(self.dense(x))


class AddAndNorm(nnx.Module):
  """LayerNorm(residual + dropout(dense(x))), the end of both halves of a layer."""

  def __init__(self, in_features: int, dropout_rate: float, config: ModelConfig, rngs: nnx.Rngs):
    self.dense = Linear(in_features, config.hidden_size, std=config.initializer_range, rngs=rngs)
    self.LayerNorm = layer_norm(config, config.hidden_size)
    self.dropout_rate = dropout_rate

  def __call__(self, x: jax.Array, residual: jax.Array, key: jax.Array | None) -> jax.Array:
    return self.LayerNorm(residual + dropout(key, self.dense(x), self.dropout_rate))


def layer_norm(config: ModelConfig, features: int) -> LayerNorm:
  """The family's."""
  kind = RootLayerNorm if config.normalizes_by_root else LayerNorm
  return kind(features, eps=config.layer_norm_eps)


def sinusoids(length: int, features: int) -> Float32[np.ndarray, "length features"]:
  """Sine and cosine in turn, of wave lengths from 2 pi to 10,000 x 2 pi (Vaswani et al. 2017, section 3.5)."""
  pairs = np.arange(0, features, 2)
  angles = np.arange(length)[:, None] * 10_000.0 ** (-pairs / features)
  waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, -1)
  return waves[:, :features].astype(np.float32)


class Pooler(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.dense = Linear(
      config.hidden_size, config.hidden_size, std=config.initializer_range, rngs=rngs
    )

  def __call__(self, x: Float[Array, "batch hidden"]) -> Float[Array, "batch hidden"]:
    return jnp.tanh(self.dense(x))
