"""Tests of the CPU's products against plain ones: values and gradients, for operands of every relative size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax.models.platform import Platform
from discipline_jax.models.products import linear, matmul

CPU = Platform("cpu")


def random(*shape: int) -> jax.Array:
  return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


def check(ours, plain, *operands):
  np.testing.assert_allclose(ours(*operands), plain(*operands), rtol=1e-5, atol=1e-5)
  weights = random(*plain(*operands).shape)
  for argument in range(2):
    found, expected = (
      jax.grad(lambda *x, f=f: (f(*x) * weights).sum(), argument)(*operands) for f in (ours, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("out", [3, 12])
@pytest.mark.parametrize("batch", [(4,), (2, 5), (2, 1, 3)])
def test_linear(batch, out):
  check(
    lambda x, weight: linear(x, weight, CPU),
    lambda x, weight: jnp.einsum("...i,oi->...o", x, weight),
    random(*batch, 6),
    random(out, 6),
  )


@pytest.mark.parametrize(("m", "k", "n"), [(5, 2, 5), (5, 5, 2), (1, 4, 3)])
def test_matmul(m, k, n):
  check(lambda a, b: matmul(a, b, CPU), jnp.matmul, random(2, 3, m, k), random(2, 3, k, n))
