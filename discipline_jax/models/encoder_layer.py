"""One layer of an encoder: self-attention and a feed-forward network (Vaswani et al. 2017, as BERT has them)."""

from functools import partial

import jax
from flax import nnx
from jaxtyping import Array, Float

from discipline_jax.models.attention import Visible, attend
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.embeddings import layer_norm
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import ACTIVATIONS, Linear, dropout, split_key
from discipline_jax.models.platform import Platform, pin


class Layer(nnx.Module):
  """Self-attention and a feed-forward network, each followed by a residual connection and LayerNorm."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.attention = Attention(config, rngs)
    self.platform = Platform.default()  # see `layers.Linear`
    self.intermediate = Intermediate(config, rngs)
    self.output = AddAndNorm(
      config.intermediate_size, config.feed_forward_dropout_prob, config, rngs
    )

  # Jitted by itself, so that it is traced and lowered once for all layers of the same sizes. Then a model of twelve
  # layers starts as fast as one of two.
  @partial(jax.jit, static_argnames=("need_weights", "need_norm_inputs"))
  def __call__(
    self,
    x: Float[Array, "batch length hidden"],
    queries: Float[Array, "batch queries hidden"],
    visible: Visible,
    key: jax.Array | None,
    *,
    need_weights: bool = False,
    need_norm_inputs: bool = False,
  ) -> tuple[jax.Array, jax.Array | None, tuple[jax.Array, jax.Array] | None]:
    weights_key, attention_key, output_key = split_key(key, 3)
    context, weights = self.attention.self(x, queries, visible, weights_key, need_weights)
    attended = self.attention.output.add(context, queries, attention_key)
    x = pin(self.attention.output.LayerNorm(attended), self.platform)
    added = self.output.add(self.intermediate(x), x, output_key)
    return (
      pin(self.output.LayerNorm(added), self.platform),
      weights,
      (attended, added) if need_norm_inputs else None,
    )


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
    visible: Visible,
    key: jax.Array | None,
    need_weights: bool,
  ) -> tuple[
    Float[Array, "batch queries hidden"], Float[Array, "batch heads queries length"] | None
  ]:
    query, keys, value = (
      pin(part(own), self.platform, "tensor")
      for part, own in ((self.query, queries), (self.key, x), (self.value, x))
    )
    return attend(
      query,
      keys,
      value,
      visible,
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
    self.platform = Platform.default()  # see `layers.Linear`

  def __call__(self, x: jax.Array) -> jax.Array:
    return pin(self.activation(self.dense(x)), self.platform, "tensor")


class AddAndNorm(nnx.Module):
  """The end of both halves of a layer: a dense layer and the residual connection (`add`), then LayerNorm."""

  def __init__(self, in_features: int, dropout_rate: float, config: ModelConfig, rngs: Rngs):
    self.dense = Linear(in_features, config.hidden_size, std=config.initializer_range, rngs=rngs)
    self.LayerNorm = layer_norm(config, config.hidden_size)
    self.dropout_rate = dropout_rate

  def add(self, x: jax.Array, residual: jax.Array, key: jax.Array | None) -> jax.Array:
    """Returns residual + dropout(dense(x)), the input of LayerNorm."""
    return residual + dropout(key, self.dense(x), self.dropout_rate)
