"""Tests of properties of the encoder that hold for any weights."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.models import layers
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import initial_params, word_embeddings
from discipline_jax.models.layers import dropout, hash_bits, recomputed_dropout
from tests.models.gradients import CONFIG

LENGTH, PADDED = 10, 4


@pytest.fixture(scope="module")
def classifier():
  """Returns a function, its parameters (far from zero), ids, and a mask that hides each row's last positions."""
  head = models.Classifier(3)
  params = initial_params("scratch", CONFIG, head, None, seed=3)
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda leaf: jnp.asarray(leaf + rng.normal(0, 0.3, leaf.shape).astype(np.float32)), params
  )
  ids = jnp.asarray(rng.integers(0, CONFIG.vocab_size, (3, LENGTH)))
  mask = jnp.asarray(np.arange(LENGTH)[None] < np.array([LENGTH, LENGTH - PADDED, 1])[:, None])
  forward = classifier_function(CONFIG, head)
  return jax.jit(lambda *inputs: forward(*inputs).logits), params, ids, mask


def test_padded_tokens_change_nothing(classifier):
  forward, params, ids, mask = classifier
  other = jnp.where(mask, ids, (ids + 7) % CONFIG.vocab_size)
  assert (other != ids).sum() == PADDED + LENGTH - 1
  np.testing.assert_array_equal(
    forward(params, ids, mask, None, None), forward(params, other, mask, None, None)
  )


def test_padded_tokens_have_no_gradient(classifier):
  forward, params, _, mask = classifier
  # Each position has its own row of the table, so the gradient of a row is the gradient of a position.
  ids = jnp.arange(3 * LENGTH).reshape(3, LENGTH)
  gradient = jax.jit(
    jax.grad(lambda params: jnp.square(forward(params, ids, mask, None, None)).sum())
  )(params)
  rows = np.asarray(word_embeddings(gradient)["weight"])[: 3 * LENGTH]
  norms = np.linalg.norm(rows, axis=-1).reshape(3, LENGTH)
  np.testing.assert_array_equal(norms > 0, mask)


def test_batch_equals_its_rows(classifier):
  forward, params, ids, mask = classifier
  rows = [forward(params, ids[i : i + 1], mask[i : i + 1], None, None) for i in range(3)]
  np.testing.assert_allclose(
    forward(params, ids, mask, None, None), jnp.concatenate(rows), atol=1e-5
  )


def test_padding_a_row_changes_nothing(classifier):
  forward, params, ids, mask = classifier
  np.testing.assert_allclose(
    forward(params, ids[1:2, : LENGTH - PADDED], mask[1:2, : LENGTH - PADDED], None, None),
    forward(params, ids[1:2], mask[1:2], None, None),
    atol=1e-5,
  )


@pytest.mark.parametrize("dropout_key", [None, jax.random.key(5)])
def test_first_only_is_the_first_position_of_all(dropout_key):
  """With dropout, all layers but the last have the same masks."""
  config = dataclasses.replace(CONFIG, num_hidden_layers=1 if dropout_key is None else 2)
  encoder = models.Encoder(config, rngs=nnx.Rngs(0))
  ids = jnp.asarray(np.random.default_rng(1).integers(0, 40, (4, 9)))
  outputs = nnx.jit(
    lambda encoder, first_only: encoder(
      ids, dropout_key=dropout_key, first_only=first_only, output_hidden_states=True
    ),
    static_argnames="first_only",
  )
  whole, first = outputs(encoder, first_only=False), outputs(encoder, first_only=True)
  assert first.last_hidden_state.shape == (4, 1, 16)
  if dropout_key is None:
    np.testing.assert_allclose(first.last_hidden_state, whole.last_hidden_state[:, :1], atol=1e-6)
    np.testing.assert_allclose(first.pooler_output, whole.pooler_output, atol=1e-6)
  else:
    for layer in range(config.num_hidden_layers):
      np.testing.assert_allclose(first.hidden_states[layer], whole.hidden_states[layer], atol=1e-6)


def test_first_only_has_the_gradients_of_all():
  encoder = models.Encoder(CONFIG, rngs=nnx.Rngs(0))
  ids = jnp.asarray(np.random.default_rng(1).integers(0, 40, (4, 9)))

  def loss(encoder, first_only):
    return jnp.square(encoder(ids, first_only=first_only).pooler_output).sum()

  whole, first = (
    nnx.jit(nnx.grad(lambda encoder, flag=flag: loss(encoder, flag)))(encoder)
    for flag in (False, True)
  )
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), whole, first)


def test_chosen_positions_equal_those_of_the_whole_row():
  """Outputs and gradients are compared."""
  encoder = models.Encoder(CONFIG, rngs=nnx.Rngs(0))
  rng = np.random.default_rng(1)
  ids, mask = jnp.asarray(rng.integers(0, 40, (4, 9))), jnp.arange(9)[None] < jnp.full((4, 1), 7)
  positions = jnp.asarray(rng.integers(0, 9, (4, 3)))

  def loss(encoder, some):
    output = encoder(ids, attention_mask=mask, positions=positions if some else None)
    x = output.last_hidden_state
    x = x[:, 1:] if some else jnp.take_along_axis(x, positions[..., None], axis=1)
    return (jnp.square(x).sum() + output.pooler_output.sum()), x

  (_, theirs), whole = nnx.jit(nnx.value_and_grad(lambda one: loss(one, False), has_aux=True))(
    encoder
  )
  (_, ours), part = nnx.jit(nnx.value_and_grad(lambda one: loss(one, True), has_aux=True))(encoder)
  assert ours.shape == (4, 3, 16)
  np.testing.assert_allclose(ours, theirs, atol=1e-6)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), whole, part)


def test_a_token_map_with_permuted_rows_is_the_identity(classifier):
  """This is the paper's isomorphism: a map T of the tokens, and the same map of the table's rows, cancel."""
  forward, params, ids, mask = classifier
  table = np.random.default_rng(2).permutation(CONFIG.vocab_size)
  moved = jax.tree.map(lambda leaf: leaf, params)
  weight = word_embeddings(params)["weight"]
  word_embeddings(moved)["weight"] = jnp.zeros_like(weight).at[table].set(weight)
  assert not np.allclose(
    forward(params, ids, mask, None, None), forward(moved, ids, mask, None, None)
  )
  np.testing.assert_allclose(
    forward(params, ids, mask, None, None),
    forward(moved, jnp.asarray(table)[ids], mask, None, None),
    atol=1e-6,
  )


def test_bfloat16_is_near_float32_and_keeps_float32_logits(classifier):
  forward, params, ids, mask = classifier
  in_bfloat16 = jax.jit(classifier_function(CONFIG, models.Classifier(3), jnp.bfloat16))
  logits = in_bfloat16(params, ids, mask, None, None).logits
  assert logits.dtype == jnp.float32
  np.testing.assert_allclose(logits, forward(params, ids, mask, None, None), atol=0.15)


def test_too_long_a_row_is_an_error():
  encoder = models.Encoder(CONFIG, rngs=nnx.Rngs(0))
  with pytest.raises(ValueError, match="13 .* 12"):
    encoder(jnp.zeros((1, 13), jnp.int32))


class TestDropout:
  shape = (64, 33, 47)

  def test_rate_and_scale(self):
    x = jnp.full(self.shape, 2.0)
    y = dropout(jax.random.key(0), x, 0.1)
    np.testing.assert_allclose(np.unique(y), [0, 2 / 0.9], rtol=1e-6)
    deviation = (0.1 * 0.9 / x.size) ** 0.5
    assert abs(float((y == 0).mean()) - 0.1) < 5 * deviation

  def test_no_key_or_no_rate_is_the_identity(self):
    x = jnp.arange(6.0)
    assert dropout(None, x, 0.5) is x
    assert dropout(jax.random.key(0), x, 0.0) is x

  def test_bits_are_balanced_and_uncorrelated(self):
    """Every bit is set half of the time. Neighbours on every axis, and two keys, agree half of the time."""
    keys = jax.random.split(jax.random.key(1), 2)
    bits = np.asarray(hash_bits(keys[0], self.shape))
    other = np.asarray(hash_bits(keys[1], self.shape))
    deviation = 0.5 / bits.size**0.5
    for bit in range(32):
      plane = (bits >> bit) & 1
      assert abs(plane.mean() - 0.5) < 5 * deviation, bit
      assert abs((plane == (other >> bit) & 1).mean() - 0.5) < 5 * deviation, bit
    for axis in range(3):
      ahead, behind = np.moveaxis(bits, axis, 0)[1:], np.moveaxis(bits, axis, 0)[:-1]
      assert abs(((ahead ^ behind) >> 31).mean() - 0.5) < 6 * deviation, axis

  def test_low_values_are_uniform(self):
    """The test is chi squared over 64 cells: 63 degrees of freedom, 5 standard deviations."""
    counts = np.bincount(
      np.asarray(hash_bits(jax.random.key(2), self.shape)).ravel() >> 26, minlength=64
    )
    expected = counts.sum() / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * (2 * 63) ** 0.5

  def test_more_elements_than_32_bits_number(self, monkeypatch):
    """With 2^32 set to 33 x 47, each of 64 rows would repeat the first one."""
    key = jax.random.key(1)
    plain = np.asarray(hash_bits(key, self.shape))
    monkeypatch.setattr(layers, "_NUMBERED", 33 * 47)
    bits = np.asarray(hash_bits(key, self.shape))
    np.testing.assert_array_equal(bits[0], plain[0])
    assert len(np.unique(bits)) > 0.999 * bits.size, "no bits come again"
    deviation = 0.5 / bits.size**0.5
    for bit in range(32):
      plane = (bits >> bit) & 1
      assert abs(plane.mean() - 0.5) < 5 * deviation, bit
      assert abs((plane[1:] == plane[:-1]).mean() - 0.5) < 6 * deviation, bit

  @pytest.mark.parametrize("drop", [dropout, recomputed_dropout])
  def test_backward_uses_the_forward_mask(self, drop):
    x, weights = jnp.ones((5, 7)), jnp.arange(35.0).reshape(5, 7)
    keys = jax.random.split(jax.random.key(3), 2)

    def loss(key, x):
      return (drop(key, x, 0.3) * weights).sum()

    gradients = jax.jit(jax.vmap(jax.grad(loss, argnums=1), in_axes=(0, None)))(keys, x)
    for key, gradient in zip(keys, gradients, strict=True):
      np.testing.assert_allclose(gradient, weights * dropout(key, x, 0.3), rtol=1e-6)
    np.testing.assert_array_equal(jax.grad(loss, argnums=1)(None, x), weights)

  def test_the_gradient_keeps_no_mask(self):
    def kept(drop):
      _, backward = jax.vjp(lambda x: drop(jax.random.key(0), x, 0.3), jnp.ones(self.shape))
      return sum(leaf.size for leaf in jax.tree.leaves(backward))

    assert kept(dropout) >= math.prod(self.shape)
    assert kept(recomputed_dropout) < 10


@pytest.mark.parametrize(
  ("family", "drops"), [("bert", True), ("roberta", True), ("plus_tfm", True), ("albert", False)]
)
def test_albert_alone_drops_nothing_after_the_feed_forward_network(family, drops):
  """Lan et al. 2020, section 4.7."""
  config = dataclasses.replace(CONFIG, model_type=family, hidden_dropout_prob=0.5)
  end = models.Encoder(config, rngs=nnx.Rngs(0)).encoder.layer[0].output
  x, residual = jnp.ones((1, 2, CONFIG.intermediate_size)), jnp.zeros((1, 2, CONFIG.hidden_size))
  trained, evaluated = (end.add(x, residual, key) for key in (jax.random.key(1), None))
  assert np.array_equal(trained, evaluated) != drops
