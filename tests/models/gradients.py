"""Small networks with every head, and gradients of them that are traced for a platform and not run."""

import jax
import jax.numpy as jnp

from discipline_jax import models
from discipline_jax.models.functional import classifier_function, pretraining_function
from discipline_jax.models.initialise import abstract_params
from discipline_jax.models.platform import Platform

CONFIG = models.ModelConfig(
  vocab_size=40,
  hidden_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=24,
  max_position_embeddings=12,
)
TPU, HOPPER = Platform("tpu"), Platform("gpu", "9.0")
HEADS = [
  models.Classifier(3),
  models.TokenClassifier(3),
  models.Span(),
  models.MultipleChoice(),
  models.Pretraining(),
]


def gradient(head, platform, dtype=jnp.float32, dropout=0.1, length=10, batch=3, **fields):
  """Returns a function that computes the gradient of the sum of all outputs, and its abstract inputs.

  Args:
    head: a head of `models`.
    platform: the platform that the program suits.
    dtype: of its arithmetic.
    dropout: of attention.
    length: tokens of its rows.
    batch: number of rows.
    fields: of the config, in place of those of `CONFIG`.
  """
  config = models.ModelConfig.from_dict(
    CONFIG.to_dict() | {"attention_probs_dropout_prob": dropout} | fields, "this test"
  )
  ids = jax.ShapeDtypeStruct((batch, length), jnp.int32)
  if isinstance(head, models.MultipleChoice):
    ids = jax.ShapeDtypeStruct((batch, 2, length), jnp.int32)
  key = jax.eval_shape(lambda: jax.random.key(0))
  if isinstance(head, models.Pretraining):
    forward = pretraining_function(config, head, dtype, platform)
    rest = (None, jax.ShapeDtypeStruct((batch, 4), jnp.int32), key)
  else:
    forward = classifier_function(config, head, dtype, platform)
    rest = (None, key)

  def loss(params, *batch):
    return sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(forward(params, *batch)))

  return jax.grad(loss), (abstract_params(config, head), ids, ids, *rest)
