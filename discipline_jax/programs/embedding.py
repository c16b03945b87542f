"""Turns sequences into vectors, the hidden states of an encoder, window by window."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike
from jaxtyping import Array, Float32, Int32

from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.functional import encoder_function
from discipline_jax.models.heads import Head
from discipline_jax.models.initialise import word_embeddings
from discipline_jax.tasks.streamed import Encoded, Scan
from discipline_jax.training.batches import buckets
from discipline_jax.training.sharding import (
  num_shards,
  platform_of,
  put,
  row_axes,
  rows_sharding,
  state_shardings,
)
from discipline_jax.training.state import Leaf
from discipline_jax.training.update import make_eval_step

POOLINGS = ("mean", "pooled", "tokens")
_BATCHES = 50  # of a window, whose rows are sorted by length
_BYTES = 1 << 28  # most bytes of the vectors of a window, if it has more than one batch
_WORTH = 20_000  # positions; computing fewer takes less time than compiling one more length


@dataclasses.dataclass(frozen=True)
class Network:
  """An encoder whose hidden states are wanted; its weights are not on the device yet.

  Attributes:
    config: sizes of the encoder.
    head: the head that `params` have.
    dtype: of the arithmetic.
    params: reads the parameters, with as many rows of the embedding table as inputs need.
  """

  config: ModelConfig
  head: Head
  dtype: DTypeLike
  params: Callable[[], dict]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class _Batch:
  """Holds samples of a batch, with an axis of one replica before all others; an empty place has the length 0."""

  ids: Leaf
  lengths: Leaf
  segments: Leaf | None


class Embedding:
  """The compiled program of an encoder on a mesh.

  Attributes:
    window: number of rows that are sorted by length together.
    num_vectors: number of vectors of the whole table.
    size: length of a vector.
  """

  def __init__(
    self,
    network: Network,
    found: Scan,
    mesh: Mesh,
    *,
    pooling: str,
    layer: int,
    special: int,
    batch_size: int,
  ):
    """Reads the weights; nothing is computed yet.

    Args:
      network: the encoder.
      found: what is known of the table.
      mesh: where it runs.
      pooling: one of POOLINGS: the mean over a row's tokens, what a classifier reads of a row, or every token.
      layer: number of the layer, 0 for the embeddings; `pooled` is of the last one.
      special: see `Inputs`.
      batch_size: rows of a batch, rounded up to a multiple of the mesh's shards.
    """
    shards = num_shards(mesh)
    self._size = -(-min(batch_size, found.rows) // shards) * shards
    self._mesh, self._special = mesh, special
    self._has_tokens = pooling == "tokens"
    lengths = np.array(sorted(found.lengths), np.int32)
    numbers = np.array([found.lengths[length] for length in lengths.tolist()], np.int64)
    self._edges = buckets(lengths, numbers, _WORTH)
    self.size = network.config.hidden_size
    self.num_vectors = int((self.counts(lengths) * numbers).sum())
    batch_bytes = self._size * self.size * 4 * (int(lengths[-1]) if self._has_tokens else 1)
    self.window = self._size * max(1, min(_BATCHES, _BYTES // batch_bytes))
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], network.params())
    params = put(params, state_shardings(mesh, params))
    rows = word_embeddings(params)["weight"].shape[1]
    config = dataclasses.replace(network.config, vocab_size=rows)
    encoder_of = encoder_function(config, network.head, network.dtype, platform_of(mesh))
    self._params = params
    self._step = make_eval_step(_function(encoder_of, pooling, layer), mesh)

  def counts(self, lengths: Int32[np.ndarray, " rows"]) -> Int32[np.ndarray, " rows"]:
    """Returns how many vectors each row has, given its length in tokens."""
    return lengths - np.int32(2 * self._special) if self._has_tokens else np.ones_like(lengths)

  def vectors(
    self, encoded: Encoded, progress: Callable[[int], object] = lambda _: None
  ) -> Float32[np.ndarray, "vectors hidden"]:
    """Returns the vector of each row of a window, or of each of its tokens without the special ones, in order.

    Rows of like length go together in a batch, which is padded to a length that is compiled. Only the last batch may
    have empty places.

    Args:
      encoded: the rows.
      progress: called with the number of rows of each batch.
    """
    special, counts = self._special, self.counts(encoded.lengths)
    ends = np.cumsum(counts)
    result = np.empty((int(ends[-1]), self.size), np.float32)

    def store(places: np.ndarray, outputs: jax.Array) -> None:
      found = np.asarray(outputs)[0, : len(places)]
      if self._has_tokens:
        for place, states in zip(places, found, strict=True):
          end, count = ends[place], counts[place]
          result[end - count : end] = states[special : special + count]
      else:
        result[places] = found
      progress(len(places))

    order = np.argsort(encoded.lengths, kind="stable")
    running: tuple[np.ndarray, jax.Array] | None = None
    for start in range(0, len(order), self._size):
      places = order[start : start + self._size]
      outputs = self._step(self._params, None, self._batch(encoded, places), None)
      if running is not None:  # the device computes the next batch meanwhile
        store(*running)
      running = places, outputs
    if running is not None:
      store(*running)
    return result

  def _batch(self, encoded: Encoded, places: np.ndarray) -> _Batch:
    lengths = np.zeros((1, self._size), np.int32)
    lengths[0, : len(places)] = encoded.lengths[places]
    width = int(self._edges[np.searchsorted(self._edges, lengths.max())])

    def padded(array: np.ndarray) -> np.ndarray:
      found = np.zeros((1, self._size, width), np.int32)
      own = array[places, :width]
      found[0, : len(places), : own.shape[1]] = own
      return found

    mesh = self._mesh
    sharding = NamedSharding(mesh, PartitionSpec(None, row_axes(mesh), None))
    return _Batch(
      put(padded(encoded.ids), sharding),
      put(lengths, rows_sharding(mesh, lengths.shape)),
      None if encoded.segments is None else put(padded(encoded.segments), sharding),
    )


def _function(encoder_of: Callable[[dict], Encoder], pooling: str, layer: int) -> Callable:
  """Returns the function of parameters and a batch of one replica to its vectors."""

  def function(params: dict, _, batch: _Batch, __) -> Float32[Array, "rows ..."]:
    encoder = encoder_of(params)
    is_last = layer == len(encoder.config.layer_order)
    output = encoder(
      batch.ids,
      attention_mask=batch.lengths,
      token_type_ids=batch.segments,
      first_only=pooling == "pooled",
      output_hidden_states=not is_last,
    )
    if pooling == "pooled":
      return output.summary.astype(jnp.float32)
    states = output.last_hidden_state
    if output.hidden_states is not None:  # XLA leaves out the layers behind it, which nothing reads
      states = output.hidden_states[layer]
    states = states.astype(jnp.float32)
    if pooling == "tokens":
      return states
    is_token = jnp.arange(states.shape[1])[None] < batch.lengths[:, None]
    total = jnp.where(is_token[..., None], states, 0).sum(1)
    return total / jnp.maximum(1, batch.lengths)[:, None]

  return function
