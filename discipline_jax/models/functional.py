"""Turns a model into a pure function of its parameters, for `jax.jit`, `jax.grad` and `jax.vmap`."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jaxtyping import Array, Float32

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.heads import ClassifierConfig, Head, encoder_of
from discipline_jax.models.hilbert_cnn import HilbertCNN
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.platform import Platform, copies
from discipline_jax.models.pretraining import Pretraining, PretrainingOutput


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ForwardOutput:
  """The outputs of a model for one batch.

  Attributes:
    logits: the head's scores: [batch, num_labels] of a `Classifier`, [batch, length, num_labels] of a
      `TokenClassifier`, [batch, length, 2] of a `Span` and [batch, choices] of a `MultipleChoice`.
    penalty: a term that the model adds to the training loss (Hilbert-CNN's L2 term), else 0.
    statistics: new values of the parameters that are not trained by gradients: batch normalization's averages.
  """

  logits: Float32[Array, "*batch scores"]
  penalty: Float32[Array, ""] | float
  statistics: dict


# (params, ids, attention_mask, token_type_ids, dropout_key) -> ForwardOutput
Forward = Callable[[dict, jax.Array, jax.Array, jax.Array | None, jax.Array | None], ForwardOutput]


# (params, ids, attention_mask, token_type_ids, positions, dropout_key) -> PretrainingOutput
PretrainingForward = Callable[
  [dict, jax.Array, jax.Array, jax.Array | None, jax.Array | None, jax.Array | None],
  PretrainingOutput,
]


def classifier_function(
  config: ClassifierConfig,
  head: Head,
  dtype: DTypeLike = jnp.float32,
  platform: Platform | None = None,
) -> Forward:
  """Returns a model with a task head as a pure function of its parameters.

  Args:
    config: sizes of the encoder.
    head: a head of `models.heads`.
    dtype: dtype of the arithmetic; parameters are float32.
    platform: the devices that the program is compiled for; None means JAX's default device.

  Returns:
    A function of `params` (as `models.initialise.initial_params` returns them) and a batch.
  """
  with_params = model_function(config, head, dtype, platform)

  def forward(
    params: dict,
    ids: jax.Array,
    attention_mask: jax.Array,
    token_type_ids: jax.Array | None,
    dropout_key: jax.Array | None,
  ) -> ForwardOutput:
    model = with_params(params)
    logits = model(
      ids,
      attention_mask=attention_mask if isinstance(model, HilbertCNN) else _lengths(attention_mask),
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
    )
    if not isinstance(model, HilbertCNN):
      return ForwardOutput(logits, 0.0, {})
    statistics = nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))
    return ForwardOutput(logits, model.penalty(), statistics)

  return forward


def pretraining_function(
  config: ModelConfig,
  head: Pretraining,
  dtype: DTypeLike = jnp.float32,
  platform: Platform | None = None,
) -> PretrainingForward:
  """Returns a model with its pre-training heads as a pure function; see `classifier_function` for the arguments."""
  with_params = model_function(config, head, dtype, platform)

  def forward(
    params: dict,
    ids: jax.Array,
    attention_mask: jax.Array,
    token_type_ids: jax.Array | None,
    positions: jax.Array | None,
    dropout_key: jax.Array | None,
  ) -> PretrainingOutput:
    model = with_params(params)
    # The table has two gradients, one as the first layer and one as the last.
    encoder = encoder_of(model)
    table = encoder.embeddings.word_embeddings.weight
    table.set_value(copies(table[...], encoder.platform))
    return model(
      ids,
      attention_mask=_lengths(attention_mask),
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
      positions=positions,
    )

  return forward


def encoder_function(
  config: ModelConfig,
  head: Head,
  dtype: DTypeLike = jnp.float32,
  platform: Platform | None = None,
) -> Callable[[dict], Encoder]:
  """Returns a function from the parameters of a model with a head to its encoder; see `classifier_function`."""
  with_params = model_function(config, head, dtype, platform)
  return lambda params: encoder_of(with_params(params))


def _lengths(attention_mask: jax.Array) -> jax.Array:
  """Returns the number of tokens of each row: the inputs of tasks and corpora have all padding at the end."""
  return attention_mask.sum(-1, dtype=jnp.int32)


def model_function(
  config: ClassifierConfig,
  head: Head,
  dtype: DTypeLike = jnp.float32,
  platform: Platform | None = None,
) -> Callable[[dict], nnx.Module]:
  """Returns a function that makes the model from its parameters, whose arrays it takes as they are.

  Args:
    config: sizes of the encoder.
    head: what stands on the encoder.
    dtype: of the arithmetic.
    platform: where the model runs; None: the default.
  """
  model = nnx.eval_shape(
    lambda: head.build(config, rngs=key_stream(jax.random.key(0)), dtype=dtype)
  )
  # Hilbert-CNN is the same on all platforms.
  if platform is not None and not isinstance(model, HilbertCNN):
    model.set_attributes(platform=platform)
  graph, abstract = nnx.split(model)

  def with_params(params: dict) -> nnx.Module:
    state = nnx.State(abstract)
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state)

  return with_params
