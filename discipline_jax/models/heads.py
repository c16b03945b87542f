"""What is put on an encoder: a classifier."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.layers import Linear, dropout


@dataclasses.dataclass(frozen=True)
class Classifier:
  """Asks `models.load` for a linear classifier on the pooled first position.

  Attributes:
    num_labels: number of classes.
  """

  num_labels: int

  def build(
    self, config: ModelConfig, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32
  ) -> "SequenceClassifier":
    """The classifier with all weights drawn."""
    return SequenceClassifier(config, self.num_labels, rngs=rngs, dtype=dtype)


class SequenceClassifier(nnx.Module):
  """transformers' `BertForSequenceClassification`: dropout and a dense layer on the pooled output."""

  def __init__(
    self, config: ModelConfig, num_labels: int, *, rngs: nnx.Rngs, dtype: jnp.dtype = jnp.float32
  ):
    self.base_model = Encoder(config, rngs=rngs, dtype=dtype)
    self.classifier = Linear(
      config.hidden_size, num_labels, std=config.initializer_range, rngs=rngs
    )
    rate = config.classifier_dropout
    self.dropout_rate = config.hidden_dropout_prob if rate is None else rate

  def __call__(
    self,
    ids: Int[Array, "batch length"],
    *,
    attention_mask: Int[Array, "batch length"] | None = None,
    token_type_ids: Int[Array, "batch length"] | None = None,
    dropout_key: jax.Array | None = None,
  ) -> Float[Array, "batch num_labels"]:
    """Returns logits in float32; arguments as for `Encoder`."""
    encoder_key, head_key = (None, None) if dropout_key is None else jax.random.split(dropout_key)
    pooled = self.base_model(
      ids,
      attention_mask=attention_mask,
      token_type_ids=token_type_ids,
      dropout_key=encoder_key,
      first_only=True,
    ).pooler_output
    return self.classifier(dropout(head_key, pooled, self.dropout_rate)).astype(jnp.float32)
