"""Tests that sums, scales and scores keep their digits if the arithmetic is in bfloat16."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.models.functional import pretraining_function
from discipline_jax.models.hilbert_cnn import WordConvolution
from discipline_jax.models.initialise import initial_params
from discipline_jax.models.layers import Linear, dropout
from tests.models.gradients import CONFIG

IDS = jnp.arange(24).reshape(2, 12)
MASK = jnp.ones((2, 12), bool)


def test_the_gradient_of_a_bias_is_the_sum_over_all_rows():
  layer = Linear(2, 4, std=0.02, rngs=nnx.Rngs(0))
  x = jnp.ones((64, 128, 2), jnp.bfloat16)
  factors = (0.01 * (1 + jax.random.uniform(jax.random.key(0), (64, 128, 4)))).astype(jnp.bfloat16)
  _, pull = jax.vjp(lambda layer: layer(x), layer)
  (gradient,) = jax.jit(pull)(factors)
  expected = np.asarray(factors, np.float64).sum((0, 1))
  np.testing.assert_allclose(gradient.bias[...], expected, rtol=1e-4)


def test_dropout_keeps_the_mean():
  """The factor 1 / 0.9 is 1.1111; the bfloat16 next to it is 1.1094."""
  x = jnp.linspace(1, 2, 1 << 14).astype(jnp.bfloat16)
  y = dropout(jax.random.key(0), x, 0.1)
  kept = y != 0
  scale = y[kept].astype(jnp.float32).mean() / x[kept].astype(jnp.float32).mean()
  assert float(scale) == pytest.approx(1 / 0.9, abs=2e-4)


@pytest.fixture(scope="module")
def pretraining():
  """Returns a model as a function of its parameters, and these."""
  head = models.Pretraining()
  params = initial_params("scratch", CONFIG, head, None, seed=0)
  forward = pretraining_function(CONFIG, head, jnp.bfloat16)
  return jax.jit(lambda params: forward(params, IDS, MASK, None, None, None)), params


def test_a_bias_of_tokens_is_added_as_it_is(pretraining):
  """Around 100, the numbers of bfloat16 are 0.5 apart: many tokens would share the highest logit."""
  forward, params = pretraining
  heads = params["cls"]
  bias = jnp.asarray(100 + 0.01 * np.arange(CONFIG.vocab_size), jnp.float32)
  predictions = heads["predictions"] | {"bias": bias}
  moved = forward(params | {"cls": heads | {"predictions": predictions}}).prediction_logits
  expected = np.asarray(forward(params).prediction_logits) + np.asarray(bias)
  np.testing.assert_allclose(moved, expected, atol=1e-4)


def test_the_scores_of_pairs_are_not_rounded(pretraining):
  forward, params = pretraining
  heads = params["cls"]
  moved = heads["seq_relationship"] | {"bias": jnp.array([100.0, 100.1])}
  found = forward(params | {"cls": heads | {"seq_relationship": moved}}).seq_relationship_logits
  expected = np.asarray(forward(params).seq_relationship_logits) + np.float32([100, 100.1])
  np.testing.assert_allclose(found, expected, atol=1e-4)


def test_words_are_summed_as_in_a_convolution():
  """All words are alike, so that the gradient of one row is a sum over all pixels."""
  layer = WordConvolution(3, 4, nnx.Rngs(0), jnp.bfloat16)
  words = jnp.full((16, 16, 32), 7)
  y, pull = jax.vjp(lambda layer: layer(words), layer)
  assert y.dtype == jnp.bfloat16
  kernel = np.asarray(layer.kernel[...], np.float64)[:, :, 7]
  np.testing.assert_allclose(y[0, 5, 5].astype(jnp.float32), kernel.sum((0, 1)), rtol=2**-8)
  (gradient,) = pull(jnp.ones_like(y))
  np.testing.assert_allclose(gradient.kernel[1, 1, 7], np.full(4, 16 * 16 * 32), rtol=1e-6)
