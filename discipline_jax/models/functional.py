"""A model as a pure function of its parameters, which is what `jax.jit`, `jax.grad` and `jax.vmap` want."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float32

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.heads import Classifier, ClassifierConfig, Head
from discipline_jax.models.hilbert_cnn import HilbertCNN
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.pretraining import Pretraining, PretrainingOutput


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ForwardOutput:
  """What a model gives for a batch.

  Attributes:
    logits: of each row.
    penalty: what the model itself adds to the training loss.
    statistics: the new values of parameters that no gradient moves: the averages of batch normalization.
  """

  logits: Float32[Array, "batch num_labels"]
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
  config: ClassifierConfig, head: Classifier, dtype: jnp.dtype = jnp.float32
) -> Forward:
  """The classifier of these sizes; `params` are as `models.initialise.initial_params` gives them."""
  with_params = _model_of(config, head, dtype)

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
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
    )
    if not isinstance(model, HilbertCNN):
      return ForwardOutput(logits, 0.0, {})
    statistics = nnx.to_pure_dict(nnx.state(model, nnx.BatchStat))
    return ForwardOutput(logits, model.penalty(), statistics)

  return forward


def pretraining_function(
  config: ModelConfig, head: Pretraining, dtype: jnp.dtype = jnp.float32
) -> PretrainingForward:
  """The model with the heads that it is pre-trained with."""
  with_params = _model_of(config, head, dtype)

  def forward(
    params: dict,
    ids: jax.Array,
    attention_mask: jax.Array,
    token_type_ids: jax.Array | None,
    positions: jax.Array | None,
    dropout_key: jax.Array | None,
  ) -> PretrainingOutput:
    return with_params(params)(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
      positions=positions,
    )

  return forward


def _model_of(config, head: Head, dtype: jnp.dtype) -> Callable[[dict], nnx.Module]:
  """A function that makes the model out of its parameters."""
  graph, abstract = nnx.split(
    nnx.eval_shape(lambda: head.build(config, rngs=key_stream(jax.random.key(0)), dtype=dtype))
  )

  def with_params(params: dict) -> nnx.Module:
    state = nnx.State(abstract)
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state)

  return with_params
