"""Singular values of the Jacobian of one output token by the embeddings: how evenly a network passes changes on.

A network is dynamically isometric (Saxe, McClelland, Ganguli 2014) if they are all near 1.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

_OUTPUTS = 16  # that are computed together
# Positions, over these outputs. XLA's compiler for CPU (0.10.2) gives wrong products from 4,096 on.
_POSITIONS = 2048

# (params, input of the first layer [1, length, hidden]) -> last hidden state of one token [1, 1, hidden]
TokenFunction = Callable[[dict, jax.Array], jax.Array]


@partial(jax.jit, static_argnums=(0, 3))
def _rows(
  function: TokenFunction, params: dict, x: jax.Array, chunk: int, first: jax.Array
) -> Float[Array, "chunk length hidden"]:
  """Returns the rows of the Jacobian for the outputs from `first` on."""
  output, pull = jax.vjp(lambda x: function(params, x)[0, 0], x)
  units = jax.nn.one_hot(first + jnp.arange(chunk), len(output), dtype=output.dtype)
  return jax.vmap(lambda unit: pull(unit)[0][0])(units)


def jacobian(
  function: TokenFunction, params: dict, x: Float[Array, "1 length hidden"]
) -> Float[np.ndarray, "outputs length hidden"]:
  """Returns the Jacobian of an output token by all input tokens.

  Args:
    function: a network from the input of its first layer to the last hidden state of one token. Give the same
      function each time: it is compiled.
    params: its parameters.
    x: the input.

  Raises:
    ArithmeticError: a row of the Jacobian is another one when it is computed alone, so the compiler made a mistake.
  """
  number = jax.eval_shape(function, params, x).shape[-1]
  chunk = max(1, min(_OUTPUTS, _POSITIONS // x.shape[1]))
  parts = [
    np.asarray(_rows(function, params, x, chunk, jnp.int32(first)))
    for first in range(0, number, chunk)
  ]
  found = np.concatenate(parts)[:number]
  alone = np.asarray(_rows(function, params, x, 1, jnp.int32(number // 2)))[0]
  if not np.allclose(found[number // 2], alone, atol=1e-3 * np.abs(alone).max()):
    raise ArithmeticError("the compiler gives another row of the Jacobian for several outputs")
  return found


def singular_values(
  jacobian: Float[np.ndarray, "outputs length hidden"],
) -> Float64[np.ndarray, " outputs"]:
  """Returns the singular values of the whole Jacobian [outputs, length x hidden], in falling order.

  They are roots of the eigenvalues of J J', in float64: those below 1e-8 of the largest are rounding.
  """
  flat = jacobian.reshape(len(jacobian), -1).astype(np.float64)
  return np.sqrt(np.maximum(0, np.linalg.eigvalsh(flat @ flat.T)[::-1]))


def singular_values_by_token(
  jacobian: Float[np.ndarray, "outputs length hidden"],
) -> Float64[np.ndarray, "length values"]:
  """Returns the singular values of the block [outputs, hidden] of each input token, as the authors of the paper do."""
  values = []
  for block in np.moveaxis(jacobian, 1, 0):
    block = block.astype(np.float64)
    products = block @ block.T if len(block) <= block.shape[1] else block.T @ block
    values.append(np.sqrt(np.maximum(0, np.linalg.eigvalsh(products)[::-1])))
  return np.stack(values)
