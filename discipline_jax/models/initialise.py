"""Makes the initial weights of a model, and chooses the rows of its embedding table that a task trains."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from functools import lru_cache

import jax
import numpy as np
from flax import nnx
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Float, Int, Int32

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.heads import ClassifierConfig, Head
from discipline_jax.models.huggingface import load_params
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.pretraining import Pretraining
from discipline_jax.streams import CONTROLS

INITS = ("pretrained", "scratch", "re_emb", "statistics", "shuffled")


def initial_params(
  init: str,
  config: ClassifierConfig,
  head: Head,
  checkpoint: pathlib.Path | None,
  seed: int,
  *,
  pretrained_layers: Sequence[int] | None = None,
) -> dict:
  """Returns the initial parameters of a model with a head, as a nested dict.

  Args:
    init: `pretrained` (the checkpoint's weights), `scratch` (all weights random), `re_emb` (the checkpoint's weights,
      except that the word embeddings are random), `statistics` (each tensor of the encoder normally distributed, with
      the mean and the deviation of the checkpoint's), or `shuffled` (the entries of each tensor in random order).
    config: sizes of the encoder.
    head: the head. The weights of a task head are always random, even if the checkpoint has weights of that name.
      The weights of `Pretraining` heads are taken from the checkpoint if it has them.
    checkpoint: directory in Hugging Face's format; not used by `scratch`.
    seed: seed of all random weights. The same seed gives the same random head with every `init`.
    pretrained_layers: numbers of the layers that have the checkpoint's weights, from 0; the other ones are random. None
      means all.

  References:
    `statistics`: Wu, Li, Liang, Insights into pre-training via simpler synthetic tasks, 2022. `pretrained_layers`:
    Tamkin, Singh, Giovanardi, Goodman, Investigating transferability in pretrained language models, 2020.
  """
  fresh: tuple[str, ...] = ()
  if pretrained_layers is not None:
    assert isinstance(
      config, ModelConfig
    )  # the callers have checked this, and that there is a checkpoint
    others = {*range(config.num_hidden_layers)} - {*pretrained_layers}
    fresh = tuple(f"encoder.layer.{layer}." for layer in sorted(others))
  return _params(init, config, head, checkpoint, seed, fresh)


def initial_table(
  init: str, config: ClassifierConfig, head: Head, checkpoint: pathlib.Path | None, seed: int
) -> Float[np.ndarray, "vocab features"]:
  """Returns the table of word embeddings that `initial_params` gives; reads no other weight of the checkpoint."""
  others = (
    *(f"embeddings.{name}" for name in ("pos", "token_type", "LayerNorm")),
    "encoder.",
    "pooler.",
  )
  params = _params(init, config, head, checkpoint, seed, others)
  return np.array(word_embeddings(params)["weight"])


def _params(
  init: str,
  config: ClassifierConfig,
  head: Head,
  checkpoint: pathlib.Path | None,
  seed: int,
  fresh: tuple[str, ...],
) -> dict:
  """Returns the initial parameters; those of the encoder whose names begin with one of `fresh` are random."""
  draw, key = _draw(config, head), jax.random.key(seed)
  if init == "scratch":
    return draw(key)
  assert checkpoint is not None
  assert isinstance(config, ModelConfig)
  shapes = jax.eval_shape(draw, key)
  if not isinstance(head, Pretraining):
    fresh = (*fresh, *_head_prefixes(shapes))
  if init == "re_emb":
    fresh = (*fresh, "embeddings.word_embeddings.")
  params = load_params(checkpoint, config, shapes, draw, key, fresh)
  return params if init in ("pretrained", "re_emb") else _without_structure(params, init, seed)


def abstract_params(config: ClassifierConfig, head: Head) -> dict:
  """Returns the shapes and dtypes of `initial_params`, without reading or computing any weight."""
  return jax.eval_shape(_draw(config, head), jax.random.key(0))


def _without_structure(params: dict, init: str, seed: int) -> dict:
  """Returns weights of which the encoder's tensors keep only their statistics, or only their values."""
  leaves = flatten_dict(params)
  for number, path in enumerate(sorted(leaves, key=str)):
    if path[0] != "base_model":
      continue
    values = np.asarray(leaves[path])
    rng = np.random.default_rng([seed, CONTROLS, number])
    leaves[path] = (
      rng.permutation(values.ravel()).reshape(values.shape)
      if init == "shuffled"
      else rng.normal(values.mean(), values.std(), values.shape).astype(values.dtype)
    )
  return unflatten_dict(leaves)


def _head_prefixes(shapes: dict) -> tuple[str, ...]:
  """Returns the prefixes of the parameters outside the encoder, such as `classifier.` or `qa_outputs.`."""
  return tuple(f"{name}." for name in shapes if name != "base_model")


@lru_cache(maxsize=1)  # traced once, and then used for every replica
def _draw(config: ClassifierConfig, head: Head) -> Callable[[jax.Array], dict]:
  """Returns the jitted function from a key to random values of all weights."""
  return jax.jit(lambda key: nnx.to_pure_dict(nnx.state(head.build(config, rngs=key_stream(key)))))


def word_embeddings(params: dict) -> dict:
  """Returns the dict whose entry "weight" is a model's table of word embeddings.

  It is the dict inside `params` and not a copy, so a caller can replace the table in place.

  Args:
    params: parameters of a model with a head, as `initial_params` returns them. The table of a Hilbert-CNN, which has
      a row for each letter, is in the same place.
  """
  return params["base_model"]["embeddings"]["word_embeddings"]


@dataclasses.dataclass(frozen=True)
class SubTable:
  """The rows of the embedding table that the inputs of a task can use.

  A row that no input uses always has the gradient 0. Without weight decay, the optimizers of this package do not change
  such a row. So it is enough to train the other rows and to write them back into the whole table.

  Attributes:
    rows: row numbers in the whole table, all different.
    lookup: for every symbol, the position of its row in `rows`.
  """

  rows: Int32[np.ndarray, " rows"]
  lookup: Int32[np.ndarray, " symbols"]

  @classmethod
  def reachable(cls, symbol_rows: Int[np.ndarray, " symbols"]) -> "SubTable":
    """Returns a sub-table that holds the rows of all symbols, and has as many rows as there are symbols.

    Args:
      symbol_rows: for every symbol, its row in the whole table.
    """
    rows, lookup = np.unique(symbol_rows, return_inverse=True)
    # A token map can give two symbols the same row. The sub-tables of all replicas are stacked, so they need the same
    # size: each one is filled up with unused rows.
    spare = np.setdiff1d(np.arange(len(symbol_rows)), rows)[: len(symbol_rows) - len(rows)]
    return cls(np.concatenate([rows, spare]).astype(np.int32), lookup.astype(np.int32))

  @classmethod
  def whole(cls, symbol_rows: Int[np.ndarray, " symbols"], vocab_size: int) -> "SubTable":
    """Returns a sub-table of all rows, for training with weight decay, which changes every row."""
    return cls(np.arange(vocab_size, dtype=np.int32), symbol_rows.astype(np.int32))

  def cut(
    self, table: Float[jax.Array | np.ndarray, "vocab hidden"]
  ) -> Float[np.ndarray, "rows hidden"]:
    """Returns the rows of `table` that are in the sub-table."""
    return np.asarray(table)[self.rows]
