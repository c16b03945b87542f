"""What is put on an encoder to classify: rows, tokens, spans and choices.

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
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.hilbert_cnn import HilbertCNN, HilbertConfig
from discipline_jax.models.layers import Linear, dropout, split_key

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
    encoder_key, head_key = split_key(dropout_key, 2)
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
    keys = split_key(key, 2)
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
    encoder_key, head_key = split_key(dropout_key, 2)
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

    encoder_key, head_key = split_key(dropout_key, 2)
    output = self.base_model(
      flat(ids),
      attention_mask=None if attention_mask is None else flat(attention_mask),
      token_type_ids=None if token_type_ids is None else flat(token_type_ids),
      dropout_key=encoder_key,
      first_only=True,
    )
    scores = self.classifier(dropout(head_key, output.summary, self.dropout_rate))
    return scores.reshape(ids.shape[:2]).astype(jnp.float32)


def encoder_of(model: nnx.Module) -> Encoder:
  """The encoder of a model with or without a head."""
  encoder = model if isinstance(model, Encoder) else getattr(model, "base_model", None)
  assert isinstance(encoder, Encoder)
  return encoder


def _linear(config: ModelConfig, out_features: int, rngs: nnx.Rngs) -> Linear:
  return Linear(config.hidden_size, out_features, std=config.initializer_range, rngs=rngs)
