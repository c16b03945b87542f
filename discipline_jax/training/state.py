"""What a group of replicas carries from step to step. Every array has a leading replica axis.

An accelerator trains all replicas as one group, side by side in one program. A CPU is busy with one replica, so
there each is a group of its own and they take turns.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32


def replica_groups(num_replicas: int) -> list[slice]:
  """Which replicas are trained side by side."""
  size = 1 if jax.default_backend() == "cpu" else num_replicas
  return [slice(start, start + size) for start in range(0, num_replicas, size)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
  """Randomness is no part of it: dropout is keyed by (seed, step), batches by (seed, epoch).

  Attributes:
    step: updates made, the same for all replicas.
    params: nested dict of parameters.
    opt_state: the optimizer's.
  """

  step: Int32[Array, " replicas"]
  params: dict
  opt_state: optax.OptState

  @classmethod
  def create(cls, params: dict, optimizer: optax.GradientTransformation) -> "TrainState":
    """The state before the first update; `params` have the replica axis."""
    num_replicas = jax.tree.leaves(params)[0].shape[0]
    return cls(jnp.zeros(num_replicas, jnp.int32), params, jax.vmap(optimizer.init)(params))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Best:
  """Each replica's parameters at its best validation score so far."""

  step: Int32[Array, " replicas"]
  score: Float[Array, " replicas"]
  params: dict


def first_best(state: TrainState) -> Best:
  """Any score beats it."""
  # Copies: the training step donates the state's own buffers.
  return Best(
    jnp.copy(state.step), jnp.full(state.step.shape, -jnp.inf), jax.tree.map(jnp.copy, state.params)
  )


def update_best(best: Best, state: TrainState, scores: Float[Array, " replicas"]) -> Best:
  """Takes over the parameters of the replicas whose score is higher than ever; the first of equals stays."""
  better = scores > best.score

  def choose(new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

  return jax.tree.map(choose, Best(state.step, scores, state.params), best)
