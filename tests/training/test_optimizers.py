"""Tests optimizers and their schedule against the formulas."""

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest

from discipline_jax.training.optimizers import (
  decayed,
  learning_rates,
  make_optimizer,
  make_schedule,
  warn_of_long_warmup,
)

TRAIN = ml_collections.ConfigDict(
  {
    "optimizer": "adam",
    "learning_rate": 0.1,
    "warmup_steps": 0,
    "weight_decay": 0.0,
    "max_grad_norm": None,
  }
)
NAMES = ("adam", "adamw", "adagrad", "adamax", "radam", "novograd")


def train(**changes) -> ml_collections.ConfigDict:
  return ml_collections.ConfigDict({**TRAIN, **changes})


def scheduled(config, num_steps):
  return make_optimizer(config, make_schedule(config, num_steps))


def test_schedule_by_hand():
  schedule = make_schedule(train(), 10)
  np.testing.assert_allclose(
    [schedule(step) for step in (0, 5, 9, 10)], [0.1, 0.05, 0.01, 0], atol=1e-8
  )
  schedule = make_schedule(train(warmup_steps=4), 10)
  np.testing.assert_allclose(
    [schedule(step) for step in (0, 2, 4, 7, 10)], [0, 0.05, 0.1, 0.05, 0], atol=1e-8
  )
  rates = learning_rates(train(warmup_steps=4), 10)
  np.testing.assert_allclose(rates[[0, 2, 4, 7]], [0, 0.05, 0.1, 0.05], atol=1e-8)
  assert (rates.shape, rates.dtype) == ((10,), np.float32)


@pytest.mark.parametrize("num_steps", [3, 4, 5])
def test_a_rate_that_never_rises_is_told(num_steps, caplog):
  config = train(warmup_steps=4)
  warn_of_long_warmup(config, num_steps)
  is_reached = learning_rates(config, num_steps).max() == np.float32(0.1)
  assert ("never rises to 0.1" in caplog.text) == (not is_reached)


def test_adam_is_the_formula():
  """Kingma & Ba 2015, algorithm 1, in numpy."""
  gradients = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
  optimizer = scheduled(train(), 10)
  params = {"weight": jnp.zeros(3)}
  state = optimizer.init(params)
  x, m, v = np.zeros(3), np.zeros(3), np.zeros(3)
  for t, g in enumerate(gradients, 1):
    updates, state = optimizer.update({"weight": jnp.asarray(g)}, state, params)
    params = {"weight": params["weight"] + updates["weight"]}
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    x -= 0.1 * (1 - (t - 1) / 10) * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
  np.testing.assert_allclose(params["weight"], x, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_optimizer_goes_downhill_and_leaves_rows_without_gradient(name):
  """Training only some rows of the embedding table is exact because the other rows do not move."""
  optimizer = scheduled(train(optimizer=name), 100)
  params = {"weight": jnp.ones((4, 3))}
  touched = jnp.array([[1.0], [0.0], [1.0], [0.0]])

  def loss(params):
    return jnp.square(params["weight"] * touched).sum()

  state = optimizer.init(params)
  for _ in range(8):
    updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    params = jax.tree.map(jnp.add, params, updates)
  assert loss(params) < 0.9 * 6
  np.testing.assert_array_equal(params["weight"][1::2], 1)


def test_weight_decay_is_decoupled_and_spares_biases_and_layer_norm():
  params = {
    "dense": {"weight": jnp.ones((2, 2)), "bias": jnp.ones(2)},
    "LayerNorm": {"weight": jnp.ones(2), "bias": jnp.ones(2)},
  }
  assert decayed(params) == {
    "dense": {"weight": True, "bias": False},
    "LayerNorm": {"weight": False, "bias": False},
  }
  optimizer = scheduled(train(optimizer="adamw", weight_decay=0.5), 10)
  updates, _ = optimizer.update(
    jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params
  )
  np.testing.assert_allclose(updates["dense"]["weight"], -0.1 * 0.5)
  np.testing.assert_array_equal(updates["dense"]["bias"], 0)
  np.testing.assert_array_equal(updates["LayerNorm"]["weight"], 0)


def test_long_gradients_are_shortened_together():
  """By hand: the norm of (3, 4) is 5, and that of (0.3, 0.4) is less than 1."""
  optimizer = scheduled(train(optimizer="adagrad", max_grad_norm=1.0), 10)
  params = {"a": jnp.zeros(1), "b": jnp.zeros(1)}
  state = optimizer.init(params)
  _, state = optimizer.update({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, state, params)
  accumulated = [leaf for leaf in jax.tree.leaves(state) if leaf.shape == (1,)]
  np.testing.assert_allclose(np.ravel(accumulated), [0.1 + 0.36, 0.1 + 0.64], rtol=1e-6)
  _, state = optimizer.update({"a": jnp.array([0.3]), "b": jnp.array([0.4])}, state, params)
  accumulated = [leaf for leaf in jax.tree.leaves(state) if leaf.shape == (1,)]
  np.testing.assert_allclose(np.ravel(accumulated), [0.46 + 0.09, 0.74 + 0.16], rtol=1e-6)
