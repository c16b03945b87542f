"""The two matrix products of a transformer, with gradients that suit the memory layout of the platform.

On CPU, XLA copies an operand into transposed order if the product contracts its rows. Often it would be cheaper to
transpose the other operand, or the result: that can move a quarter of the bytes. The gradients here make this choice
themselves. They use `jax.custom_vjp`, so on CPU there is no forward-mode differentiation. On an accelerator the layout
costs nothing, and the plain product is used.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from discipline_jax.models.platform import Platform


def linear(
  x: Float[Array, "*batch in"], weight: Float[Array, "out in"], platform: Platform
) -> Float[Array, "*batch out"]:
  """Returns x @ weight.T."""
  if platform.name == "cpu":
    return _linear(x.reshape(-1, x.shape[-1]), weight).reshape(*x.shape[:-1], weight.shape[0])
  return jax.lax.dot_general(x, weight, (((x.ndim - 1,), (1,)), ((), ())))


def matmul(
  a: Float[Array, "*batch m k"], b: Float[Array, "*batch k n"], platform: Platform
) -> Float[Array, "*batch m n"]:
  """Returns a @ b for many small matrices."""
  return _matmul(a, b) if platform.name == "cpu" else a @ b


def transpose(x: Float[Array, "*batch m n"]) -> Float[Array, "*batch n m"]:
  """Swaps the last two axes."""
  return x.swapaxes(-1, -2)


@jax.custom_vjp
def _linear(x: jax.Array, weight: jax.Array) -> jax.Array:
  return jax.lax.dot_general(x, weight, (((1,), (1,)), ((), ())))


def _linear_backward(operands, gradient):
  x, weight = operands
  contract_rows = (((0,), (0,)), ((), ()))
  # XLA transposes the left operand, so the smaller one stands there.
  if gradient.shape[1] > x.shape[1]:
    weight_gradient = transpose(jax.lax.dot_general(x, gradient, contract_rows))
  else:
    weight_gradient = jax.lax.dot_general(gradient, x, contract_rows)
  return gradient @ weight, weight_gradient


_linear.defvjp(lambda x, weight: (_linear(x, weight), (x, weight)), _linear_backward)


@jax.custom_vjp
def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
  # Without the barrier, XLA folds transposes into a product of small matrices, which then takes twice as long.
  a, b = jax.lax.optimization_barrier((a, b))
  return jnp.matmul(a, b)


def _matmul_backward(operands, gradient):
  a, b = operands
  if a.size <= gradient.size:
    b_gradient = _matmul(transpose(a), gradient)
  else:
    b_gradient = transpose(_matmul(transpose(gradient), a))
  return _matmul(gradient, transpose(b)), b_gradient


_matmul.defvjp(lambda a, b: (_matmul(a, b), (a, b)), _matmul_backward)
