"""The gradient of an update whose samples are cut into parts, one after the other, to fit into memory."""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def accumulated_gradient(loss_of: Callable, params: dict, *parts) -> tuple[tuple, dict]:
  """The sum of `loss_of` and of its gradient over parts.

  Args:
    loss_of: (params, *part) -> (loss, anything else).
    params: with respect to which the gradient is.
    parts: trees whose leading axis runs over the parts.

  Returns:
    ((loss, all else with a leading axis over the parts), gradient), as `jax.value_and_grad` has them.
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
