"""The update: one training step for every objective, with accumulation and replicas inside.

Replicas are several runs that differ by their seed. They are computed side by side: everything that belongs to one
replica has a leading axis over the replicas.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.sharding import Mesh

from discipline_jax.training.optimizers import cut_parameters
from discipline_jax.training.sharding import platform_of, replicated, spreads, state_shardings
from discipline_jax.training.state import TrainState

RATE = jax.ShapeDtypeStruct((), jnp.float32)  # the learning rate, an input of a training step


@dataclasses.dataclass(frozen=True)
class Loss:
  """The loss of one update of one replica, cut into parts that are computed one after the other to save memory.

  The loss of the update is the sum of the losses of its parts.

  Attributes:
    function: (params, *part) -> (loss, aux).
    parts: trees whose leading axis runs over the parts.
    metrics: maps the stacked aux [parts, ...] to metrics by name.
    statistics: maps the stacked aux to new values of parameters that no gradient moves, as a nested dict.
  """

  function: Callable
  parts: tuple
  metrics: Callable[[Any], dict] = lambda _: {}
  statistics: Callable[[Any], dict] = lambda _: {}


# (updates made, shared inputs, inputs of one replica) -> Loss
GetLoss = Callable[[jax.Array, Any, Any], Loss]

# learning rate by the number of updates made -> optimizer
MakeOptimizer = Callable[[optax.Schedule], optax.GradientTransformation]


def make_train_step(
  get_loss: GetLoss,
  make_optimizer: MakeOptimizer,
  mesh: Mesh,
  state: TrainState,
  parameters: str = "all",
) -> jax.stages.Wrapped:
  """Compiles `(state, rate, shared, own) -> (state, metrics)`; `state` is donated.

  The learning rate of the update is an input, so that trainings of other rates and other lengths share a program.

  Args:
    get_loss: makes the loss of an update of one replica.
    make_optimizer: makes an optimizer whose state matches `state`.
    mesh: where the step runs.
    state: state of a group of replicas; only its shapes are used.
    parameters: which parameters are trained, see `optimizers.PARAMETERS`. The gradient of the others is not computed.

  Returns:
    A jitted function of the state, the learning rate (Float32 []), the inputs that replicas share, and each replica's
    own inputs, which have a leading axis over the replicas. Metrics are `loss`, `grad_norm` and those of the loss,
    each [replicas].
  """

  def update(state: TrainState, rate: jax.Array, shared, own) -> tuple[TrainState, dict]:
    optimizer = make_optimizer(lambda _: rate)
    loss = get_loss(state.step, shared, own)
    trained, frozen = cut_parameters(state.params, parameters)

    def loss_of(trained: dict, *part) -> tuple[jax.Array, Any]:
      return loss.function(_replaced(frozen, trained), *part)

    (value, rest), gradient = accumulated_gradient(loss_of, trained, *loss.parts)
    changes, opt_state = optimizer.update(gradient, state.opt_state, trained)
    params = _replaced(frozen, optax.apply_updates(trained, changes))
    params = _replaced(params, loss.statistics(rest))
    metrics = loss.metrics(rest) | {"loss": value, "grad_norm": optax.tree.norm(gradient)}
    return TrainState(state.step + 1, params, opt_state), metrics

  def step(state: TrainState, rate: jax.Array, shared, own) -> tuple[TrainState, dict]:
    return over_replicas(mesh, lambda state, own: update(state, rate, shared, own), state, own)

  return jax.jit(
    step,
    donate_argnums=0,
    compiler_options=compiler_options(mesh),
    out_shardings=(state_shardings(mesh, state), replicated(mesh)),
  )


def make_eval_step(function: Callable, mesh: Mesh) -> jax.stages.Wrapped:
  """Compiles `(params, shared, own, length) -> outputs` for a group of replicas.

  Args:
    function: (params, shared, own, length) -> outputs, for one replica. `length` is static, and None if the inputs
      tell it.
    mesh: where the step runs.
  """

  def step(params: dict, shared, own, length: int | None = None):
    return over_replicas(
      mesh, lambda params, own: function(params, shared, own, length), params, own
    )

  return jax.jit(
    step,
    static_argnums=3,
    compiler_options=compiler_options(mesh),
    out_shardings=replicated(mesh),
  )


def accumulated_gradient(loss_of: Callable, params: dict, *parts) -> tuple[tuple, dict]:
  """Sums `loss_of` and its gradient over parts, one after the other.

  Args:
    loss_of: (params, *part) -> (loss, anything else).
    params: the gradient is taken with respect to them.
    parts: trees whose leading axis runs over the parts.

  Returns:
    ((loss, all else with a leading axis over the parts), gradient), in the form of `jax.value_and_grad`.
  """
  value_and_grad = jax.value_and_grad(loss_of, has_aux=True)
  if jax.tree.leaves(parts)[0].shape[0] == 1:
    (loss, rest), gradient = value_and_grad(params, *jax.tree.map(lambda x: x[0], parts))
    return (loss, jax.tree.map(lambda x: x[None], rest)), gradient

  def accumulate(total, part):
    (loss, rest), gradient = value_and_grad(params, *part)
    return jax.tree.map(jnp.add, total, (loss, gradient)), rest

  zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
  (loss, gradient), rest = jax.lax.scan(accumulate, zero, parts)
  return (loss, rest), gradient


def over_replicas(mesh: Mesh, function: Callable, *stacked):
  """Applies `function` to each replica of a group, side by side."""
  number = jax.tree.leaves(stacked)[0].shape[0]
  if number == 1:
    # On CPU, a batched product over one replica is slower than a plain product. `squeeze` removes the axis, because
    # tracing an indexing operation for each of hundreds of arrays would take longer.
    alone = jax.tree.map(lambda x: jax.lax.squeeze(x, (0,)), stacked)
    return jax.tree.map(lambda x: jax.lax.expand_dims(x, (0,)), function(*alone))
  if spreads(mesh, number):
    return jax.vmap(function, spmd_axis_name="data")(*stacked)
  return jax.vmap(function)(*stacked)


def compiler_options(mesh: Mesh) -> dict[str, str] | None:
  """Returns options for the compiler: on CPU, XLA's YNNPACK gets the reductions but not the products.

  Its products are slower than Eigen's. The option is experimental, so it is set only for the version that it was
  measured with, 0.10.
  """
  if platform_of(mesh).name != "cpu" or jax.__version_info__[:2] != (0, 10):
    return None
  return {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}


def _replaced(params: dict, others: dict) -> dict:
  """Returns `params` with the leaves of `others` in their places, or beside them."""
  return unflatten_dict(flatten_dict(params) | flatten_dict(others))
