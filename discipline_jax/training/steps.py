"""The training and the evaluation step: pure functions of arrays, jitted over a mesh.

They work on a group of replicas at once. A replica has its own parameters, token map, batches and dropout; the
samples lie once on every device, and a batch is a set of indices into them.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Float32, Int32, UInt, UInt8

from discipline_jax.models.functional import Forward
from discipline_jax.tasks.features import PAD
from discipline_jax.training.accumulation import accumulated_gradient
from discipline_jax.training.compiler import compiler_options
from discipline_jax.training.replicas import over_replicas
from discipline_jax.training.sharding import BATCH, state_shardings
from discipline_jax.training.state import TrainState

_DROPOUT = 0xD0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class DeviceData:
  """A task's samples on the device.

  Attributes:
    symbols, segments, labels: as in `tasks.features`.
    lookup: each replica's row of its (sub-)table for each symbol: the token map.
    seeds: each replica's.
  """

  symbols: UInt[Array, "samples length"]
  segments: UInt8[Array, "samples length"] | None
  labels: Int32[Array, " samples"] | Float32[Array, " samples"]
  lookup: Int32[Array, "replicas symbols"]
  seeds: Int32[Array, " replicas"]


def make_train_step(
  forward: Forward, optimizer: optax.GradientTransformation, mesh: Mesh, state: TrainState
):
  """Compiles `(state, data, indices [replicas, accumulation, rows], length) -> (state, metrics)`.

  Of every sample the first `length` positions are computed, which is static; the rest must be padding. An index of
  -1 is an empty place. The loss is cross-entropy where labels are integers, the squared error where they are
  values. The gradient is that of the mean loss over all the samples of an update,
  however they are cut into parts. `state` is donated.

  Args:
    forward: the model.
    optimizer: its state must match `state`.
    mesh: rows are spread over its data and fsdp axes.
    state: only its shapes are looked at.

  Returns:
    A jitted function; metrics are `loss` and `grad_norm`, [replicas].
  """

  def update(
    state: TrainState,
    data: DeviceData,
    lookup: jax.Array,
    seed: jax.Array,
    indices: jax.Array,
    length: int,
  ):
    # A stream of its own: the same seed also draws the parameters.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _DROPOUT), state.step)
    num_samples = jnp.maximum(1, (indices >= 0).sum())

    def loss_of(params: dict, part: jax.Array, key: jax.Array) -> tuple[jax.Array, dict]:
      output = forward(params, *_inputs(data, lookup, part, length), key)
      losses = _losses(output.logits, jnp.take(data.labels, part, mode="clip"))
      loss = jnp.where(part >= 0, losses, 0).sum() / num_samples
      return loss + output.penalty / indices.shape[0], output.statistics

    keys = jax.random.split(key, indices.shape[0])
    (loss, of_parts), gradient = accumulated_gradient(loss_of, state.params, indices, keys)
    statistics = jax.tree.map(lambda x: x.mean(0), of_parts)
    changes, opt_state = optimizer.update(gradient, state.opt_state, state.params)
    params = _replaced(optax.apply_updates(state.params, changes), statistics)
    return TrainState(state.step + 1, params, opt_state), {
      "loss": loss,
      "grad_norm": optax.tree.norm(gradient),
    }

  def step(state: TrainState, data: DeviceData, indices: jax.Array, length: int):
    return over_replicas(
      lambda state, lookup, seed, rows: update(state, data, lookup, seed, rows, length),
      state,
      data.lookup,
      data.seeds,
      indices,
    )

  return jax.jit(
    step,
    static_argnums=3,
    donate_argnums=0,
    compiler_options=compiler_options(),
    in_shardings=(
      state_shardings(mesh, state),
      None,
      NamedSharding(mesh, PartitionSpec(None, None, BATCH)),
    ),
    out_shardings=(state_shardings(mesh, state), NamedSharding(mesh, PartitionSpec())),
  )


def make_eval_step(forward: Forward, mesh: Mesh, params: dict):
  """Compiles `(params, data, indices [replicas, rows], length) -> logits [replicas, rows, labels]`, without dropout."""

  def step(params: dict, data: DeviceData, indices: jax.Array, length: int):
    return over_replicas(
      lambda params, lookup, rows: (
        forward(params, *_inputs(data, lookup, rows, length), None).logits
      ),
      params,
      data.lookup,
      indices,
    )

  return jax.jit(
    step,
    static_argnums=3,
    compiler_options=compiler_options(),
    in_shardings=(
      state_shardings(mesh, params),
      None,
      NamedSharding(mesh, PartitionSpec(None, BATCH)),
    ),
    out_shardings=NamedSharding(mesh, PartitionSpec()),
  )


def _inputs(
  data: DeviceData, lookup: jax.Array, indices: jax.Array, length: int
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
  """Rows of the embedding table, attention mask and segments of some samples; an empty place has no token."""
  symbols = jnp.take(data.symbols[:, :length], indices, axis=0, mode="clip")
  segments = None
  if data.segments is not None:
    segments = jnp.take(data.segments[:, :length], indices, axis=0, mode="clip").astype(jnp.int32)
  return lookup[symbols], (symbols != PAD) & (indices >= 0)[:, None], segments


def _replaced(params: dict, statistics: dict) -> dict:
  """`params` with the leaves of `statistics` in their places."""
  return unflatten_dict(flatten_dict(params) | flatten_dict(statistics))


def _losses(logits: Float[Array, "rows outputs"], labels: jax.Array) -> Float[Array, " rows"]:
  if jnp.issubdtype(labels.dtype, jnp.integer):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)
  return jnp.square(logits[:, 0] - labels)
