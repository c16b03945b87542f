"""Defines the state that a group of replicas carries from step to step; every array has a leading replica axis.

An accelerator trains all replicas as one group, side by side in one program. One replica is enough to keep a CPU busy,
so there each replica is a group of its own, and the groups take turns.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from discipline_jax.models.platform import Platform
from discipline_jax.training.optimizers import cut_parameters

# A leaf of a tree: an array, or in trees of the same form a shape or a sharding.
Leaf = Any


def replica_groups(num_replicas: int, platform: Platform) -> list[slice]:
  """Returns the groups of replicas that are trained side by side, as slices of the replica axis."""
  size = 1 if platform.name == "cpu" else num_replicas
  return [slice(start, start + size) for start in range(0, num_replicas, size)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
  """Holds the parameters and the optimizer's state after some updates.

  It holds no random state: the keys of dropout are made from (seed, step), the order of batches from (seed, epoch).

  Attributes:
    step: Int32 [replicas], updates made, the same for all replicas.
    params: nested dict of parameters, each [replicas, ...].
    opt_state: state of the optimizer; its arrays are [replicas, ...].
  """

  step: Leaf
  params: dict
  opt_state: optax.OptState

  @classmethod
  def create(
    cls, params: dict, optimizer: optax.GradientTransformation, parameters: str = "all"
  ) -> "TrainState":
    """Makes the state before the first update.

    Args:
      params: nested dict of all parameters, each [replicas, ...].
      optimizer: the optimizer.
      parameters: which parameters it trains, a name of `optimizers.PARAMETERS`; its state has no others.
    """
    num_replicas = jax.tree.leaves(params)[0].shape[0]
    trained, _ = cut_parameters(params, parameters)
    return cls(jnp.zeros(num_replicas, jnp.int32), params, jax.vmap(optimizer.init)(trained))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Best:
  """Holds the parameters of each replica at its best validation score so far.

  Attributes:
    step: Int32 [replicas], number of updates after which the score was reached.
    score: Float32 [replicas], the best score; -inf before the first one.
    params: nested dict of parameters, each [replicas, ...].
  """

  step: Leaf
  score: Leaf
  params: dict


def first_best(state: TrainState) -> Best:
  """Makes a `Best` that any score beats."""
  # Copies: the training step donates the state's own buffers.
  return Best(
    jnp.copy(state.step), jnp.full(state.step.shape, -jnp.inf), jax.tree.map(jnp.copy, state.params)
  )


def update_best(best: Best, state: TrainState, scores: Float[Array, " replicas"]) -> Best:
  """Returns `best` with the step, score and parameters of each replica whose new score is higher than its best one.

  Args:
    best: the best ones so far.
    state: the state that was evaluated.
    scores: its score on validation, for each replica. A score that is equal to the best one, or NaN, changes nothing.
  """
  better = scores > best.score

  def choose(new: jax.Array, old: jax.Array) -> jax.Array:
    return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

  return jax.tree.map(choose, Best(state.step, scores, state.params), best)
