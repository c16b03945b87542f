"""What is put on an encoder: classifiers of rows, tokens, spans and choices, and the heads of pre-training.

A head is asked for by a small dataclass, whose `build` makes the module. Its parameters have the names of BERT's
checkpoints, with the encoder's below `base_model`. All modules are called like `Encoder`, and return float32.
"""

import dataclasses
from typing import Protocol

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder, layer_norm
from discipline_jax.models.hilbert_cnn import HilbertCNN, HilbertConfig
from discipline_jax.models.layers import ACTIVATIONS, Linear, dropout
from discipline_jax.models.products import linear

# What a `Classifier` can be built of.
ClassifierConfig = ModelConfig | HilbertConfig


class Head(Protocol):
  """Asks `models.load` for a model with a head."""

  def build(
    self, config: ModelConfig, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32
  ) -> nnx.Module:
    """The model with all weights drawn."""


@dataclasses.dataclass(frozen=True)
class Classifier:
  """A classifier of rows, or a regressor.

  Attributes:
    num_labels: number of classes; 1 for a value.
  """

  num_labels: int

  def build(self, config, *, rngs, dtype=jnp.float32) -> "SequenceClassifier | HilbertCNN":
    if isinstance(config, HilbertConfig):
      return HilbertCNN(config, self.num_labels, rngs=rngs, dtype=dtype)
    return SequenceClassifier(config, self.num_labels, rngs=rngs, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class TokenClassifier:
  """A classifier of every token.

  Attributes:
    num_labels: number of classes.
  """

  num_labels: int

  def build(self, config, *, rngs, dtype=jnp.float32) -> "PositionClassifier":
    return PositionClassifier(config, self.num_labels, rngs=rngs, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class Span:
  """The start and the end of an answer in a text."""

  def build(self, config, *, rngs, dtype=jnp.float32) -> "SpanClassifier":
    return SpanClassifier(config, rngs=rngs, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class MultipleChoice:
  """A score for each of some choices."""

  def build(self, config, *, rngs, dtype=jnp.float32) -> "ChoiceClassifier":
    return ChoiceClassifier(config, rngs=rngs, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class Pretraining:
  """The heads that a model is pre-trained with.

  Attributes:
    masked_lm: predict the tokens themselves.
    next_sentence: predict whether the second segment follows the first (BERT), whether the two are in order (ALBERT),
      or whether they are of one family (PLUS-TFM).
  """

  masked_lm: bool = True
  next_sentence: bool = True

  def build(self, config, *, rngs, dtype=jnp.float32) -> "PretrainingModel":
    if self.next_sentence and config.model_type == "roberta":
      raise ValueError("RoBERTa has no task on pairs of segments; set next_sentence=False")
    return PretrainingModel(config, self.masked_lm, self.next_sentence, rngs=rngs, dtype=dtype)


class SequenceClassifier(nnx.Module):
  """Dropout and a dense layer on the pooled output; RoBERTa has a dense layer of its own before it, PLUS-TFM none."""

  def __init__(
    self, config: ModelConfig, num_labels: int, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32
  ):
    pools = config.model_type != "roberta"
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=pools)
    self.classifier = (
      _linear(config, num_labels, rngs) if pools else FirstPosition(config, num_labels, rngs)
    )
    self.num_labels = num_labels
    self.dropout_rate = config.classifier_dropout_prob

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: Int[Array, "batch length"] | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch num_labels"]:
    encoder_key, head_key = _two(dropout_key)
    output = self.base_model(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=encoder_key,
      first_only=True,
    )
    if isinstance(self.classifier, FirstPosition):
      return self.classifier(output.summary, head_key).astype(jnp.float32)
    x = dropout(head_key, output.summary, self.dropout_rate)
    return self.classifier(x).astype(jnp.float32)


class FirstPosition(nnx.Module):
  """RoBERTa's classifier of rows."""

  def __init__(self, config: ModelConfig, num_labels: int, rngs: nnx.Rngs):
    self.dense = _linear(config, config.hidden_size, rngs)
    self.out_proj = _linear(config, num_labels, rngs)
    self.dropout_rate = config.classifier_dropout_prob

  def __call__(self, x: Float[Array, "batch hidden"], key: jax.Array | None) -> jax.Array:
    keys = _two(key)
    x = jnp.tanh(self.dense(dropout(keys[0], x, self.dropout_rate)))
    return self.out_proj(dropout(keys[1], x, self.dropout_rate))


class PositionClassifier(nnx.Module):
  """Dropout and a dense layer on every position."""

  def __init__(
    self, config: ModelConfig, num_labels: int, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32
  ):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=False)
    self.classifier = _linear(config, num_labels, rngs)
    self.num_labels = num_labels
    self.dropout_rate = config.classifier_dropout_prob

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: Int[Array, "batch length"] | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch length num_labels"]:
    encoder_key, head_key = _two(dropout_key)
    x = self.base_model(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=encoder_key,
    ).last_hidden_state
    return self.classifier(dropout(head_key, x, self.dropout_rate)).astype(jnp.float32)


class SpanClassifier(nnx.Module):
  """A dense layer on every position: how likely an answer starts, and ends, there."""

  def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=False)
    self.qa_outputs = _linear(config, 2, rngs)

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: Int[Array, "batch length"] | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch length 2"]:
    x = self.base_model(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
    ).last_hidden_state
    return self.qa_outputs(x).astype(jnp.float32)


class ChoiceClassifier(nnx.Module):
  """A score from the pooled output of each choice."""

  def __init__(self, config: ModelConfig, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype)
    self.classifier = _linear(config, 1, rngs)
    # transformers' RobertaForMultipleChoice does not ask for the classifier's own.
    self.dropout_rate = (
      config.hidden_dropout_prob
      if config.model_type == "roberta"
      else config.classifier_dropout_prob
    )

  def __call__(
    self,
    ids: Int[Array, "batch choices length"],
    *,
    attention_mask: Int[Array, "batch choices length"] | None = None,
    token_type_ids: Int[Array, "batch choices length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch choices"]:
    def flat(x: jax.Array) -> jax.Array:
      return x.reshape(-1, x.shape[-1])

    encoder_key, head_key = _two(dropout_key)
    output = self.base_model(
      flat(ids),
      attention_mask=None if attention_mask is None else flat(attention_mask),
      token_type_ids=None if token_type_ids is None else flat(token_type_ids),
      dropout_key=encoder_key,
      first_only=True,
    )
    scores = self.classifier(dropout(head_key, output.summary, self.dropout_rate))
    return scores.reshape(ids.shape[:2]).astype(jnp.float32)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PretrainingOutput:
  """Under Hugging Face's names.

  Attributes:
    prediction_logits: [batch, positions, vocab], None without a masked LM.
    seq_relationship_logits: [batch, 2], None without the second task.
  """

  prediction_logits: Float[Array, "batch positions vocab"] | None
  seq_relationship_logits: Float[Array, "batch 2"] | None


class PretrainingModel(nnx.Module):
  """The masked language model, whose output layer is the word-embedding table, and the task on pairs of segments."""

  def __init__(
    self,
    config: ModelConfig,
    masked_lm: bool,
    next_sentence: bool,
    *,
    rngs: nnx.Rngs,
    dtype: jnp.dtype = jnp.float32,
  ):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=next_sentence)
    self.cls = PretrainingHeads(config, masked_lm, next_sentence, rngs)
    # ALBERT alone has it before the second task.
    self.dropout_rate = config.classifier_dropout_prob if config.model_type == "albert" else 0.0

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: Int[Array, "batch length"] | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
    positions: Int[Array, "batch positions"] | None = None,
  ) -> PretrainingOutput:
    """`positions` are those whose tokens are predicted, by default all: the vocabulary's logits cost the most."""
    encoder_key, head_key = _two(dropout_key)
    output = self.base_model(
      ids, attention_mask=attention_mask, token_type_ids=token_type_ids, dropout_key=encoder_key
    )
    predictions, seq_relationship = self.cls.predictions, self.cls.seq_relationship
    logits = relation = None
    if predictions is not None:
      x = output.last_hidden_state
      if positions is not None:
        x = jnp.take_along_axis(x, positions[..., None], axis=1)
      table = self.base_model.embeddings.word_embeddings.weight[...]
      logits = predictions(x, table).astype(jnp.float32)
    if seq_relationship is not None:
      x = dropout(head_key, output.summary, self.dropout_rate)
      relation = seq_relationship(x).astype(jnp.float32)
    return PretrainingOutput(logits, relation)


class PretrainingHeads(nnx.Module):
  def __init__(self, config: ModelConfig, masked_lm: bool, next_sentence: bool, rngs: nnx.Rngs):
    self.predictions = Predictions(config, rngs) if masked_lm else None
    self.seq_relationship = _linear(config, 2, rngs) if next_sentence else None


class Predictions(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.transform = Transform(config, rngs)
    self.bias = nnx.Param(jnp.zeros(config.vocab_size, jnp.float32))

  def __call__(
    self, x: Float[Array, "batch positions hidden"], table: Float[Array, "vocab features"]
  ) -> Float[Array, "batch positions vocab"]:
    logits = linear(self.transform(x), table.astype(x.dtype))
    return logits + self.bias[...].astype(x.dtype)[None, None]


class Transform(nnx.Module):
  def __init__(self, config: ModelConfig, rngs: nnx.Rngs):
    self.dense = _linear(config, config.embedding_features, rngs)
    self.LayerNorm = layer_norm(config, config.embedding_features)
    # transformers' RobertaLMHead has it fixed.
    self.activation = ACTIVATIONS["gelu" if config.model_type == "roberta" else config.hidden_act]

  def __call__(self, x: jax.Array) -> jax.Array:
    return self.LayerNorm(self.activation(self.dense(x)))


def encoder_of(model: nnx.Module) -> Encoder:
  """The encoder of a model with or without a head."""
  encoder = model if isinstance(model, Encoder) else getattr(model, "base_model", None)
  assert isinstance(encoder, Encoder)
  return encoder


def _linear(config: ModelConfig, out_features: int, rngs: nnx.Rngs) -> Linear:
  return Linear(config.hidden_size, out_features, std=config.initializer_range, rngs=rngs)


def _two(key: jax.Array | None) -> tuple[jax.Array | None, jax.Array | None]:
  return (None, None) if key is None else tuple(jax.random.split(key))
