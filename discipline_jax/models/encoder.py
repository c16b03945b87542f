"""The encoder of BERT (Devlin et al. 2019) and of the families that `models.families` lists, in Flax NNX.

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
from jaxtyping import Array, Float, Int

from discipline_jax.models.attention import AttentionMask, Visible, token_mask
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.embeddings import Embeddings
from discipline_jax.models.encoder_layer import Layer
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import Linear, split_key
from discipline_jax.models.platform import Platform, pin, row_major


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
    norm_inputs: every layer's two inputs of LayerNorm, that of attention and that of the feed-forward network, each
      [batch, length, hidden], or None likewise.
  """

  last_hidden_state: Float[Array, "batch length hidden"]
  pooler_output: Float[Array, "batch hidden"] | None
  hidden_states: tuple[jax.Array, ...] | None = None
  attentions: tuple[jax.Array, ...] | None = None
  norm_inputs: tuple[tuple[jax.Array, jax.Array], ...] | None = None

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
    self.platform = Platform.default()  # see `layers.Linear`
    self.remat = remat
    self.source: pathlib.Path | None = None  # directory of the checkpoint, set by `models.load`
    self.embeddings = Embeddings(config, rngs)
    self.encoder = Layers(config, rngs)
    self.pooler = Pooler(config, rngs) if add_pooling_layer and config.family.has_pooler else None

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
    """Runs the encoder: `run_layers` on what `embed` returns.

    Args:
      ids: token ids, which are rows of the word-embedding table.
      attention_mask: 1 or True for tokens, 0 or False for padding; or [batch], the number of tokens of each row, if all
        padding is at the end, which cuDNN's kernel needs; None means no padding. RoBERTa's positions count the tokens
        in the mask (in transformers, the tokens that are not `pad_token_id`).
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
    return self.run_layers(
      self.embed(
        ids,
        attention_mask=attention_mask,
        token_type_ids=token_type_ids,
        dropout_key=dropout_key,
      ),
      attention_mask=attention_mask,
      dropout_key=dropout_key,
      first_only=first_only,
      positions=positions,
      output_hidden_states=output_hidden_states,
      output_attentions=output_attentions,
    )

  def embed(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch length hidden"]:
    """Returns the input of the first layer, which is the first of the hidden states; see `__call__`."""
    if ids.shape[1] > self.config.max_length:
      raise ValueError(
        f"{ids.shape[1]} tokens a row, but the model has positions for {self.config.max_length}; shorten the rows"
      )
    if token_type_ids is None or self.config.type_vocab_size == 1:
      token_type_ids = jnp.zeros_like(ids)
    mask = token_mask(attention_mask, ids.shape[1])
    x = self.embeddings(ids, token_type_ids, mask, self._keys(dropout_key)[0]).astype(self.dtype)
    return row_major(pin(self.encoder.project(x), self.platform), self.platform)

  def run_layers(
    self,
    x: Float[Array, "batch length hidden"],
    *,
    attention_mask: AttentionMask | None = None,
    dropout_key: jax.Array | None = None,
    first_only: bool = False,
    positions: Int[Array, "batch positions"] | None = None,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
    output_norm_inputs: bool = False,
  ) -> EncoderOutput:
    """Runs the layers on the input of the first one, which `embed` returns; see `__call__` for the other arguments.

    Args:
      x: input of the first layer.
      output_norm_inputs: whether to return the inputs of every layer's LayerNorms.
    """
    mask = token_mask(attention_mask, x.shape[1])
    if self.config.is_decoder:
      first_only, positions = False, None  # the summary of a row is its last token
    visible = Visible.of(attention_mask, x.shape[1], is_causal=self.config.is_decoder)
    order = self.config.layer_order
    run: Callable = partial(
      Layer.__call__, need_weights=output_attentions, need_norm_inputs=output_norm_inputs
    )
    run = jax.checkpoint(run) if self.remat else run
    hidden_states, attentions, norm_inputs = [x], [], []
    for layer, key in zip(order, self._keys(dropout_key)[1:], strict=True):
      is_last = len(hidden_states) == len(order)
      queries = _chosen(x, first_only, positions) if is_last else x
      x, weights, inputs = run(self.encoder.layer[layer], x, queries, visible, key)
      hidden_states.append(x)
      attentions.append(weights)
      norm_inputs.append(inputs)
    return EncoderOutput(
      last_hidden_state=x,
      pooler_output=None if self.pooler is None else self.pooler(self._summary(x, mask)),
      hidden_states=tuple(hidden_states) if output_hidden_states else None,
      attentions=tuple(attentions) if output_attentions else None,
      norm_inputs=tuple(norm_inputs) if output_norm_inputs else None,
    )

  def _keys(self, dropout_key: jax.Array | None) -> list:
    """Returns the dropout key of the embeddings, and then of each layer."""
    return split_key(dropout_key, len(self.config.layer_order) + 1)

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
  """The layers of an encoder, and the projection of factorised embeddings before them."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    if config.embedding_size is not None:
      self.embedding_hidden_mapping_in = Linear(
        config.embedding_size, config.hidden_size, std=config.initializer_range, rngs=rngs
      )
    self.layer = nnx.List([Layer(config, rngs) for _ in range(max(config.layer_order) + 1)])

  def project(self, x: jax.Array) -> jax.Array:
    """Projects factorised embeddings to the width of the layers; returns other ones as they are."""
    return (
      self.embedding_hidden_mapping_in(x) if hasattr(self, "embedding_hidden_mapping_in") else x
    )


class Pooler(nnx.Module):
  """A dense layer and tanh on the vector that represents a row."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.dense = Linear(
      config.hidden_size, config.hidden_size, std=config.initializer_range, rngs=rngs
    )

  def __call__(self, x: Float[Array, "batch hidden"]) -> Float[Array, "batch hidden"]:
    return jnp.tanh(self.dense(x))
