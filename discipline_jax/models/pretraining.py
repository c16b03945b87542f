"""The heads for pre-training: a language model, and a classifier of pairs of segments."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Float32, Int

from discipline_jax.models.attention import AttentionMask
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.embeddings import layer_norm
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import ACTIVATIONS, Linear, dropout, split_key
from discipline_jax.models.platform import Platform, per_copy, pin, split_rows
from discipline_jax.models.products import linear


@dataclasses.dataclass(frozen=True)
class Pretraining:
  """The description of the heads for pre-training.

  Attributes:
    masked_lm: whether to predict tokens: the masked ones or, in a left-to-right model, the next ones.
    next_sentence: whether to predict if the second segment follows the first (BERT), if the two are in the right order
      (ALBERT), or if they are of one protein family (PLUS-TFM).
    remat: whether to compute the inside of a layer again for its gradient; see `Encoder`.
  """

  masked_lm: bool = True
  next_sentence: bool = True
  remat: bool = False

  def build(self, config, *, rngs, dtype=jnp.float32) -> "PretrainingModel":
    if self.next_sentence and not config.family.has_pairs:
      raise ValueError(
        f"{config.model_type} has no task on pairs of segments; set next_sentence=False"
      )
    return PretrainingModel(config, self, rngs=rngs, dtype=dtype)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PretrainingOutput:
  """Holds the outputs of a pre-training model, with Hugging Face's names.

  Attributes:
    prediction_logits: [batch, positions, columns], a column for each token of the vocabulary, or None without the
      language model. If the axis `tensor` does not divide the vocabulary, columns of the smallest number follow.
    seq_relationship_logits: [batch, 2], or None without the task on pairs of segments.
  """

  prediction_logits: Float[Array, "batch positions columns"] | None
  seq_relationship_logits: Float[Array, "batch 2"] | None


class PretrainingModel(nnx.Module):
  """An encoder with its heads for pre-training; the language model's output layer is the word-embedding table."""

  def __init__(
    self,
    config: ModelConfig,
    head: Pretraining,
    *,
    rngs: Rngs,
    dtype: DTypeLike = jnp.float32,
  ):
    self.base_model = Encoder(
      config, rngs=rngs, dtype=dtype, add_pooling_layer=head.next_sentence, remat=head.remat
    )
    self.cls = PretrainingHeads(config, head.masked_lm, head.next_sentence, rngs)
    self.dropout_rate = config.head_dropout_prob("rows") if config.family.pairs_dropout else 0.0

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
    positions: Int[Array, "batch positions"] | None = None,
  ) -> PretrainingOutput:
    """Runs the encoder and its heads.

    Args:
      ids, attention_mask, token_type_ids, dropout_key: as in `Encoder`.
      positions: positions whose tokens are predicted; None means all. A few are much faster, because the logits over
        the vocabulary are the most expensive part.
    """
    encoder_key, head_key = split_key(dropout_key, 2)
    output = self.base_model(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=encoder_key,
      positions=positions,
    )
    predictions, seq_relationship = self.cls.predictions, self.cls.seq_relationship
    logits = relation = None
    if predictions is not None:
      x = output.last_hidden_state
      if positions is not None and self.base_model.config.is_decoder:
        x = jnp.take_along_axis(x, positions[..., None], axis=1)
      elif positions is not None:
        x = x[:, 1:]  # after the first position
      table = self.base_model.embeddings.word_embeddings.weight[...]
      logits = predictions(x, table)
    if seq_relationship is not None:
      x = dropout(head_key, output.summary, self.dropout_rate)
      relation = seq_relationship(x.astype(jnp.float32))
    return PretrainingOutput(logits, relation)


class PretrainingHeads(nnx.Module):
  """The heads of a pre-training model; each is None if it is not used."""

  def __init__(self, config: ModelConfig, masked_lm: bool, next_sentence: bool, rngs: Rngs):
    self.predictions = Predictions(config, rngs) if masked_lm else None
    self.seq_relationship = (
      Linear(config.hidden_size, 2, std=config.initializer_range, rngs=rngs)
      if next_sentence
      else None
    )


class Predictions(nnx.Module):
  """The language model's head: a transformation, then the product with the word-embedding table, then a bias."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.transform = Transform(config, rngs)
    self.bias = nnx.Param(jnp.zeros(config.vocab_size, jnp.float32))
    self.platform = Platform.default()  # see `layers.Linear`

  def __call__(
    self, x: Float[Array, "batch positions hidden"], table: Float[Array, "*copies vocab features"]
  ) -> Float32[Array, "batch positions columns"]:
    table = split_rows(table, self.platform).astype(x.dtype)
    x = pin(self.transform(x), self.platform)
    logits = per_copy(lambda table, x: linear(x, table, self.platform), table, x)
    missing = logits.shape[-1] - self.bias.shape[0]
    bias = jnp.pad(self.bias[...], (0, missing), constant_values=jnp.finfo(jnp.float32).min)
    # In float32, as is its gradient, a sum over all positions. In bfloat16 the highest logits would often be equal.
    return pin(logits, self.platform, "tensor").astype(jnp.float32) + bias[None, None]


class Transform(nnx.Module):
  """A dense layer, an activation and LayerNorm before the output layer of the language model."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    self.dense = Linear(
      config.hidden_size, config.embedding_features, std=config.initializer_range, rngs=rngs
    )
    self.LayerNorm = layer_norm(config, config.embedding_features)
    self.activation = ACTIVATIONS[config.family.lm_act or config.hidden_act]

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.LayerNorm(self.activation(self.dense(x)))
