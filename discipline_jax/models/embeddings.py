"""The embeddings of an encoder: tokens, segments and positions, normalized."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Float32

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.key_stream import Rngs
from discipline_jax.models.layers import Embedding, LayerNorm, RootLayerNorm, dropout


class Embeddings(nnx.Module):
  """The sum of word, segment and position embeddings, with LayerNorm and dropout."""

  def __init__(self, config: ModelConfig, rngs: Rngs):
    std, size = config.initializer_range, config.embedding_features
    self.word_embeddings = Embedding(config.vocab_size, size, std=std, rngs=rngs)
    if not config.family.has_sinusoids:
      self.position_embeddings = Embedding(config.max_position_embeddings, size, std=std, rngs=rngs)
    self.token_type_embeddings = (
      Embedding(config.type_vocab_size, size, std=std, rngs=rngs)
      if config.family.has_segments
      else None
    )
    self.LayerNorm = layer_norm(config, size)
    self.dropout_rate = config.hidden_dropout_prob
    self.first_position = config.first_position

  def __call__(
    self,
    ids: jax.Array,
    token_type_ids: jax.Array,
    mask: jax.Array | None,
    key: jax.Array | None,
  ) -> jax.Array:
    x = self.word_embeddings(ids)
    if self.token_type_embeddings is not None:
      x = x + self.token_type_embeddings(token_type_ids)
    x = x + self._positions(ids.shape[1], mask)
    return dropout(key, self.LayerNorm(x), self.dropout_rate)

  def _positions(
    self, length: int, mask: jax.Array | None
  ) -> Float[Array, "batch length features"]:
    if not hasattr(self, "position_embeddings"):
      return jnp.asarray(sinusoids(length, self.word_embeddings.weight.shape[-1]))[None]
    if self.first_position == 0 or mask is None:
      rows = slice(self.first_position, self.first_position + length)
      return self.position_embeddings.weight[...][None, rows]
    # All padding has the same row, the one before the first position's.
    return self.position_embeddings(jnp.cumsum(mask, axis=1) * mask + self.first_position - 1)


def layer_norm(config: ModelConfig, features: int) -> LayerNorm:
  """Returns the layer normalization of the family."""
  kind = RootLayerNorm if config.family.normalizes_by_root else LayerNorm
  return kind(features, eps=config.layer_norm_eps)


def sinusoids(length: int, features: int) -> Float32[np.ndarray, "length features"]:
  """Returns sines and cosines in turn, with wavelengths from 2 pi to 10,000 x 2 pi (Vaswani et al. 2017, 3.5)."""
  pairs = np.arange(0, features, 2)
  angles = np.arange(length)[:, None] * 10_000.0 ** (-pairs / features)
  waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, -1)
  return waves[:, :features].astype(np.float32)
