"""Heads on an encoder that classify rows, tokens, spans and choices.

A small dataclass describes a head, and its `build` makes the module of encoder and head. Parameters have the names that
they have in BERT's checkpoints; `base_model` holds the encoder. All modules take the inputs of `Encoder`. Their last
layer is computed in float32: in bfloat16, values far from 0 have no digits after the point, and scores that are near
each other are equal.
"""

import dataclasses
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from discipline_jax.models.attention import AttentionMask
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.hilbert_cnn import HilbertCNN, HilbertConfig
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import ACTIVATIONS, Linear, dropout, split_key

# A `Classifier` can have either encoder.
ClassifierConfig = ModelConfig | HilbertConfig
_ACTIVATIONS = {**ACTIVATIONS, "tanh": jnp.tanh}


@runtime_checkable
class Head(Protocol):
  """The description of a head, which `models.load` takes."""

  def build(
    self, config: ClassifierConfig, *, rngs: Rngs, dtype: DTypeLike = jnp.float32
  ) -> nnx.Module:
    """Returns the model with random weights; only `Classifier` takes a `HilbertConfig`."""

  def __hash__(self) -> int:
    """Returns a hash, because compiled programs are cached by their head."""


@dataclasses.dataclass(frozen=True)
class Classifier:
  """A classifier of rows, or a regressor.

  Attributes:
    num_labels: number of classes; 1 for a regressor.
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
  """A head that finds the start and the end of an answer in a text."""

  def build(self, config, *, rngs, dtype=jnp.float32) -> "SpanClassifier":
    return SpanClassifier(config, rngs=rngs, dtype=dtype)


@dataclasses.dataclass(frozen=True)
class MultipleChoice:
  """A head that gives a score to each of several choices."""

  def build(self, config, *, rngs, dtype=jnp.float32) -> "ChoiceClassifier":
    if config.family.classifier_act is not None and not config.family.has_pooler:
      raise ValueError(
        f"{config.model_type} has no pooler for MultipleChoice; give a checkpoint of BERT, RoBERTa or ALBERT"
      )
    return ChoiceClassifier(config, rngs=rngs, dtype=dtype)


class SequenceClassifier(nnx.Module):
  """Dropout and a dense layer on the pooled output.

  Families without a pooler read the first position, most of them through a dense layer in the head.
  """

  def __init__(
    self, config: ModelConfig, num_labels: int, *, rngs: Rngs, dtype: DTypeLike = jnp.float32
  ):
    pools = config.family.classifier_act is None
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=pools)
    self.classifier = (
      _linear(config, num_labels, rngs) if pools else FirstPosition(config, num_labels, rngs)
    )
    self.num_labels = num_labels
    self.dropout_rate = config.head_dropout_prob("rows")

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
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
      return self.classifier(output.summary, head_key)
    x = dropout(head_key, output.summary, self.dropout_rate)
    return self.classifier(x.astype(jnp.float32))


class FirstPosition(nnx.Module):
  """A classifier of rows for encoders without a pooler: two dense layers with dropout on the first position."""

  def __init__(self, config: ModelConfig, num_labels: int, rngs: Rngs):
    self.dense = _linear(config, config.hidden_size, rngs)
    self.out_proj = _linear(config, num_labels, rngs)
    assert config.family.classifier_act is not None  # else there is a pooler, or no layer
    self.activation = _ACTIVATIONS[config.family.classifier_act]
    self.dropout_rate = config.head_dropout_prob("rows")
    self.dropout_before = config.family.dropout_before

  def __call__(self, x: Float[Array, "batch hidden"], key: jax.Array | None) -> jax.Array:
    keys = split_key(key, 2)
    if self.dropout_before:
      x = dropout(keys[0], x, self.dropout_rate)
    x = self.activation(self.dense(x))
    return self.out_proj(dropout(keys[1], x, self.dropout_rate).astype(jnp.float32))


class PositionClassifier(nnx.Module):
  """Dropout and a dense layer on every position."""

  def __init__(
    self, config: ModelConfig, num_labels: int, *, rngs: Rngs, dtype: DTypeLike = jnp.float32
  ):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=False)
    self.classifier = _linear(config, num_labels, rngs)
    self.num_labels = num_labels
    self.dropout_rate = config.head_dropout_prob("tokens")

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
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
    return self.classifier(dropout(head_key, x, self.dropout_rate).astype(jnp.float32))


class SpanClassifier(nnx.Module):
  """A dense layer on every position, whose two outputs score it as the start and as the end of an answer."""

  def __init__(self, config: ModelConfig, *, rngs: Rngs, dtype: DTypeLike = jnp.float32):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype, add_pooling_layer=False)
    self.qa_outputs = _linear(config, 2, rngs)

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: AttentionMask | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch length 2"]:
    x = self.base_model(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
    ).last_hidden_state
    return self.qa_outputs(x.astype(jnp.float32))


class ChoiceClassifier(nnx.Module):
  """Dropout and a dense layer on the pooled output of each choice."""

  def __init__(self, config: ModelConfig, *, rngs: Rngs, dtype: DTypeLike = jnp.float32):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype)
    self.classifier = _linear(config, 1, rngs)
    self.dropout_rate = config.head_dropout_prob("choices")

  def __call__(
    self,
    ids: Int[Array, "batch choices length"],
    *,
    attention_mask: Bool[Array, "batch choices length"]
    | Int[Array, "batch choices length"]
    | Int[Array, "batch choices"]
    | None = None,
    token_type_ids: Int[Array, "batch choices length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch choices"]:
    def flat(x: jax.Array) -> jax.Array:
      return x.reshape(-1, *x.shape[2:])

    encoder_key, head_key = split_key(dropout_key, 2)
    output = self.base_model(
      flat(ids),
      attention_mask=None if attention_mask is None else flat(attention_mask),
      token_type_ids=None if token_type_ids is None else flat(token_type_ids),
      dropout_key=encoder_key,
      first_only=True,
    )
    x = dropout(head_key, output.summary, self.dropout_rate)
    return self.classifier(x.astype(jnp.float32)).reshape(ids.shape[:2])


def encoder_of(model: nnx.Module) -> Encoder:
  """Returns the encoder of a model with or without a head."""
  encoder = model if isinstance(model, Encoder) else getattr(model, "base_model", None)
  assert isinstance(encoder, Encoder)
  return encoder


def rescaled(params: dict, factor: jax.Array, offset: jax.Array) -> dict:
  """Returns the parameters of a classifier whose outputs are `factor` times as large, plus `offset`.

  Args:
    params: parameters of a model with a `Classifier` or a `TokenClassifier`; each has the axes of `factor` before its
      own axes.
    factor, offset: numbers, or arrays over replicas.
  """
  return params | {"classifier": _rescaled(params["classifier"], factor, offset)}


def _rescaled(layer: dict, factor: jax.Array, offset: jax.Array) -> dict:
  """Returns the parameters of a classifier layer whose outputs are `factor` times as large, plus `offset`."""
  if "layers" in layer:  # Hilbert-CNN
    last = max(layer["layers"])
    changed = _rescaled(layer["layers"][last], factor, offset)
    return layer | {"layers": layer["layers"] | {last: changed}}
  if "out_proj" in layer:  # FirstPosition
    return layer | {"out_proj": _rescaled(layer["out_proj"], factor, offset)}
  changed = jax.tree.map(lambda leaf: leaf * _expand(factor, leaf), layer)
  return changed | {"bias": changed["bias"] + _expand(offset, changed["bias"])}


def _expand(x: jax.Array, like: jax.Array) -> jax.Array:
  return x.reshape(x.shape + (1,) * (like.ndim - x.ndim))


def _linear(config: ModelConfig, out_features: int, rngs: Rngs) -> Linear:
  return Linear(config.hidden_size, out_features, std=config.initializer_range, rngs=rngs)
