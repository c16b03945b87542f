"""A model as a pure function of its parameters, which is what `jax.jit`, `jax.grad` and `jax.vmap` want."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.heads import Classifier

# (params, ids, attention_mask, token_type_ids, dropout_key) -> logits [batch, num_labels]
Forward = Callable[[dict, jax.Array, jax.Array, jax.Array | None, jax.Array | None], jax.Array]


def classifier_function(
  config: ModelConfig, head: Classifier, dtype: jnp.dtype = jnp.float32
) -> Forward:
  """The classifier of these sizes; `params` are as `models.initialise.initial_params` gives them."""
  graph, abstract = nnx.split(
    nnx.eval_shape(lambda: head.build(config, rngs=nnx.Rngs(0), dtype=dtype))
  )

  def forward(
    params: dict,
    ids: jax.Array,
    attention_mask: jax.Array,
    token_type_ids: jax.Array | None,
    dropout_key: jax.Array | None,
  ) -> jax.Array:
    state = nnx.State(abstract)
    nnx.replace_by_pure_dict(state, params)
    return nnx.merge(graph, state)(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=dropout_key,
    )

  return forward
