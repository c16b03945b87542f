"""The encoder of BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), ALBERT (Lan et al. 2020) and PLUS-TFM (Min et
al. 2019) in Flax NNX.

The path of a parameter in `nnx.state(Encoder(...))`, joined by dots, is its name in a checkpoint of
`transformers.BertModel`, for example `encoder.layer.0.attention.self.query.weight`. `models.names` holds the names in
the other families.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from discipline_jax.models.attention import AttentionMask, attend
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.embeddings import Embeddings, layer_norm
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import (
  ACTIVATIONS,
  Linear,
  dropout,
  split_key,
)
from discipline_jax.models.platform import Platform


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EncoderOutput:
  """Holds the outputs of an encoder, with Hugging Face's names.

  Attributes:
    last_hidden_state: [batch, length, hidden]; with `first_only` [batch, 1, hidden], with `positions` [batch,
      1 + positions, hidden].
    pooler_output: [batch, hidden], tanh of a dense layer on the first position (in a left-to-right model, on the last
      token); None without a pooler.
    hidden_states: the embeddings and the output of every layer, or None if they were not asked for.
    attentions: every layer's attention weights after softmax, [batch, heads, length, length], or None likewise.
  """

  last_hidden_state: Float[Array, "batch length hidden"]
  pooler_output: Float[Array, "batch hidden"] | None
  hidden_states: tuple[jax.Array, ...] | None = None
  attentions: tuple[jax.Array, ...] | None = None

  @property
  def summary(self) -> Float[Array, "batch hidden"]:
    """Returns the vector that represents a whole row: the pooled output, or the first position without a pooler."""
    return self.last_hidden_state[:, 0] if self.pooler_output is None else self.pooler_output


class Encoder(nnx.Module):
  """An encoder, which turns token ids into one vector for each token."""

  def __init__(
    self,
    config: ModelConfig,
    *,
    rngs: Rngs,
    dtype: DTypeLike = jnp.float32,
    add_pooling_layer: bool = True,
    remat: bool = False,
  ):
    """Makes an encoder with random weights.

    Args:
      config: sizes and options.
      rngs: keys of the random weights.
      dtype: dtype of the arithmetic; the weights are float32.
      add_pooling_layer: whether to have a pooler, if the family has one.
      remat: whether to compute a layer's inside again for its gradient: a third more time, and much less memory.
    """
    self.config = config
    self.dtype = dtype
    self.remat = remat
    self.source: pathlib.Path | None = None  # directory of the checkpoint, set by `models.load`
    self.embeddings = Embeddings(config, rngs)
    self.encoder = Layers(config, rngs)
    self.pooler = Pooler(config, rngs) if add_pooling_layer and config.has_pooler else None

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
    first_only: bool = False,
    positions: Int[Array, "batch positions"] | None = None,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
  ) -> EncoderOutput:
    """Runs the encoder.

    Args:
      ids: token ids, which are rows of the word-embedding table.
      attention_mask: 1 or True for tokens, 0 or False for padding; None means no padding. RoBERTa's positions count
        the tokens in the mask (in transformers, the tokens that are not `pad_token_id`).
      token_type_ids: segment of each token; None means segment 0. A model with one segment ignores it.
      dropout_key: one PRNG key; None turns dropout off.
      first_only: whether the last layer computes only the first position, which is all that a classifier reads. It
        saves the other positions' queries and feed-forward network in that layer. A left-to-right model ignores it.
      positions: positions that the last layer computes, after the first one; pre-training reads no others. A
        left-to-right model ignores them.
      output_hidden_states: whether to return every layer's output.
      output_attentions: whether to return every layer's attention weights.

    Raises:
      ValueError: the rows are longer than the model's largest length.
    """
    if ids.shape[1] > self.config.max_length:
      raise ValueError(
        f"{ids.shape[1]} tokens a row, but the model has positions for {self.config.max_length}; shorten the rows"
      )
    if token_type_ids is None or self.config.type_vocab_size == 1:
      token_type_ids = jnp.zeros_like(ids)
    mask = None if attention_mask is None else attention_mask.astype(bool)
    if self.config.is_decoder:
      first_only, positions = False, None  # the summary of a row is its last token
    keys = split_key(dropout_key, len(self.config.layer_order) + 1)
    x = self.embeddings(ids, token_type_ids, mask, keys[0]).astype(self.dtype)
    hidden_states, attentions = self._run_layers(
      self.encoder.project(x),
      self._allowed(ids.shape[1], mask),
      keys[1:],
      partial(_chosen, first_only=first_only, positions=positions),
      output_attentions,
    )
    x = hidden_states[-1]
    return EncoderOutput(
      last_hidden_state=x,
      pooler_output=None if self.pooler is None else self.pooler(self._summary(x, mask)),
      hidden_states=tuple(hidden_states) if output_hidden_states else None,
      attentions=tuple(attentions) if output_attentions else None,
    )

  def _run_layers(
    self,
    x: Float[Array, "batch length hidden"],
    allowed: jax.Array | None,
    keys: list,
    choose: Callable[[jax.Array], jax.Array],
    need_weights: bool,
  ) -> tuple[list[jax.Array], list]:
    """Returns the input and the output of every layer, and their attention weights if they are needed.

    Args:
      x: input of the first layer.
      allowed: see `attention.attend`.
      keys: dropout key of each layer.
      choose: returns the positions that the last layer computes.
      need_weights: whether to return attention weights; if not, they are None.
    """
    order = self.config.layer_order
    run: Callable = partial(Layer.__call__, need_weights=need_weights)
    run = jax.checkpoint(run) if self.remat else run
    hidden_states, attentions = [x], []
    for layer, key in zip(order, keys, strict=True):
      is_last = len(hidden_states) == len(order)
      x, weights = run(self.encoder.layer[layer], x, choose(x) if is_last else x, allowed, key)
      hidden_states.append(x)
      attentions.append(weights)
    return hidden_states, attentions

  def _allowed(
    self, length: int, mask: Bool[Array, "batch length"] | None
  ) -> Bool[Array, "#batch 1 #queries length"] | None:
    """Returns which keys each query may see, or None if it may see all of them."""
    allowed = None if mask is None else mask[:, None, None, :]
    if not self.config.is_decoder:
      return allowed
    before = jnp.tri(length, dtype=bool)[None, None]
    return before if allowed is None else before & allowed

  def _summary(self, x: jax.Array, mask: jax.Array | None) -> Float[Array, "batch hidden"]:
    """Returns the vector of the token that represents a row: the first, or in a left-to-right model the last."""
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
  """Returns the positions of `x` that the last layer computes."""
  if first_only:
    return x[:, :1]
  if positions is None:
    return x
  others = jnp.take_along_axis(x, positions[..., None], axis=1)
  return jnp.concatenate([x[:, :1], others], axis=1)


class Layers(nnx.Module):
  """The layers of an encoder, and ALBERT's projection before them."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    if config.embedding_size is not None:
      self.embedding_hidden_mapping_in = Linear(
        config.embedding_size, config.hidden_size, std=config.initializer_range, rngs=rngs
      )
    self.layer = nnx.List([Layer(config, rngs) for _ in range(max(config.layer_order) + 1)])

  def project(self, x: jax.Array) -> jax.Array:
    """Projects embeddings to the width of the layers, in ALBERT; returns `x` itself in the other families."""
    return (
      self.embedding_hidden_mapping_in(x) if hasattr(self, "embedding_hidden_mapping_in") else x
    )


class Layer(nnx.Module):
  """Self-attention and a feed-forward network, each followed by a residual connection and LayerNorm."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.attention = Attention(config, rngs)
    self.intermediate = Intermediate(config, rngs)
    self.output = AddAndNorm(
      config.intermediate_size, config.feed_forward_dropout_prob, config, rngs
    )

  # Jitted by itself, so that it is traced and lowered once for all layers of the same sizes. Then a model of twelve
  # layers starts as fast as one of two.
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
  """Self-attention and the dense layer, dropout, residual connection and LayerNorm after it."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.self = SelfAttention(config, rngs)
    self.output = AddAndNorm(config.hidden_size, config.hidden_dropout_prob, config, rngs)


class SelfAttention(nnx.Module):
  """Multi-head self-attention; `queries` can be some positions of `x`."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    size, std = config.hidden_size, config.initializer_range
    self.query = Linear(size, size, std=std, rngs=rngs)
    self.key = Linear(size, size, std=std, rngs=rngs)
    self.value = Linear(size, size, std=std, rngs=rngs)
    self.num_heads = config.num_attention_heads
    self.dropout_rate = config.attention_probs_dropout_prob
    self.platform = Platform.default()  # see `layers.Linear`

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
      platform=self.platform,
      dropout_key=key,
      dropout_rate=self.dropout_rate,
      need_weights=need_weights,
    )


class Intermediate(nnx.Module):
  """The first dense layer of the feed-forward network, and its activation."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.dense = Linear(
      config.hidden_size, config.intermediate_size, std=config.initializer_range, rngs=rngs
    )
    self.activation = ACTIVATIONS[config.hidden_act]

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.activation(self.dense(x))


class AddAndNorm(nnx.Module):
  """The end of both halves of a layer: LayerNorm(residual + dropout(dense(x)))."""

  def __init__(self, in_features: int, dropout_rate: float, config: ModelConfig, rngs: Rngs):
    self.dense = Linear(in_features, config.hidden_size, std=config.initializer_range, rngs=rngs)
    self.LayerNorm = layer_norm(config, config.hidden_size)
    self.dropout_rate = dropout_rate

  def __call__(self, x: jax.Array, residual: jax.Array, key: jax.Array | None) -> jax.Array:
    return self.LayerNorm(residual + dropout(key, self.dense(x), self.dropout_rate))


class Pooler(nnx.Module):
  """A dense layer and tanh on the vector that represents a row."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.dense = Linear(
      config.hidden_size, config.hidden_size, std=config.initializer_range, rngs=rngs
    )

  def __call__(self, x: Float[Array, "batch hidden"]) -> Float[Array, "batch hidden"]:
    return jnp.tanh(self.dense(x))
