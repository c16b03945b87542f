"""The paper's three starting points of a model, and the part of its embedding table that a task can reach."""

import dataclasses
import pathlib
from collections.abc import Callable
from functools import lru_cache

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float, Int32

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.heads import Classifier, ClassifierConfig
from discipline_jax.models.huggingface import load_params
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.pretraining import Pretraining

INITS = ("pretrained", "scratch", "re_emb")


def initial_params(
  init: str,
  config: ClassifierConfig,
  head: Classifier | Pretraining,
  checkpoint: pathlib.Path | None,
  seed: int,
) -> dict:
  """Parameters of a model with a head, as a nested dict.

  Args:
    init: `pretrained` (the checkpoint's weights), `scratch` (all weights drawn), or `re_emb` (the
      checkpoint's, but the word embeddings drawn).
    config: sizes of the encoder.
    head: the head; a classifier is always drawn, whatever the checkpoint was fine-tuned for.
    checkpoint: directory in Hugging Face's format; unused by `scratch`.
    seed: of everything that is drawn. The same seed draws the same head under every init.
  """
  draw, key = _draw(config, head), jax.random.key(seed)
  if init == "scratch":
    return draw(key)
  assert checkpoint is not None  # make_plan sees to it
  assert isinstance(config, ModelConfig)
  fresh = ("classifier.", "embeddings.word_embeddings.") if init == "re_emb" else ("classifier.",)
  return load_params(checkpoint, config, jax.eval_shape(draw, key), draw, key, fresh)


def abstract_params(config: ClassifierConfig, head: Classifier | Pretraining) -> dict:
  """The shapes of `initial_params`; nothing is read or drawn."""
  return jax.eval_shape(_draw(config, head), jax.random.key(0))


@lru_cache(maxsize=1)  # replicas are drawn by one program, which is traced once
def _draw(config: ClassifierConfig, head: Classifier | Pretraining) -> Callable[[jax.Array], dict]:
  return jax.jit(lambda key: nnx.to_pure_dict(nnx.state(head.build(config, rngs=key_stream(key)))))


def word_embeddings(params: dict) -> dict:
  """The sub-tree of a classifier's parameters that holds the word-embedding table."""
  return params["base_model"]["embeddings"]["word_embeddings"]


@dataclasses.dataclass(frozen=True)
class SubTable:
  """The rows of the embedding table that a task can touch.

  A row that no input reads has no gradient, and the optimizers here leave a weight without gradient
  where it is as long as there is no weight decay: training these rows alone and writing
  them back is the same as training the whole table.

  Attributes:
    rows: their numbers in the whole table; no row twice.
    lookup: for every symbol, the position of its row in `rows`.
  """

  rows: Int32[np.ndarray, " rows"]
  lookup: Int32[np.ndarray, " symbols"]

  @classmethod
  def reachable(cls, symbol_rows: Int32[np.ndarray, " symbols"]) -> "SubTable":
    """The smallest one for symbols that stand in these rows of the whole table."""
    rows, lookup = np.unique(symbol_rows, return_inverse=True)
    # As many rows as symbols, so that replicas whose maps collide differently still stack;
    # nothing looks up the surplus.
    spare = np.setdiff1d(np.arange(len(symbol_rows)), rows)[: len(symbol_rows) - len(rows)]
    return cls(np.concatenate([rows, spare]).astype(np.int32), lookup.astype(np.int32))

  @classmethod
  def whole(cls, symbol_rows: Int32[np.ndarray, " symbols"], vocab_size: int) -> "SubTable":
    return cls(np.arange(vocab_size, dtype=np.int32), symbol_rows.astype(np.int32))

  def cut(self, table: Float[jax.Array, "vocab hidden"]) -> Float[np.ndarray, "rows hidden"]:
    return np.asarray(table)[self.rows]
