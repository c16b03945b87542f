"""Attention maps, Jacobians, gradients, noise and spreads: by hand, by definition, and what they must not depend on."""

import errno
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.analysis import gradients, isometry
from discipline_jax.analysis.attention import (
  distances_from_uniform,
  head_distances,
  matched_distance,
)
from discipline_jax.analysis.isometry import jacobian, singular_values, singular_values_by_token
from discipline_jax.analysis.layernorm import Spread
from discipline_jax.analysis.perturbation import add_noise, distances

CONFIG = models.ModelConfig(
  vocab_size=40,
  hidden_size=12,
  num_hidden_layers=2,
  num_attention_heads=3,
  intermediate_size=24,
  max_position_embeddings=12,
  initializer_range=0.3,
)


@pytest.fixture(scope="module")
def encoder():
  return models.Encoder(CONFIG, rngs=nnx.Rngs(0))


@pytest.fixture(scope="module")
def batch():
  rng = np.random.default_rng(0)
  mask = np.arange(9)[None] < np.array([[9], [6], [4]])
  return {"ids": jnp.asarray(rng.integers(0, 40, (3, 9))), "attention_mask": jnp.asarray(mask)}


class TestAttention:
  def test_a_network_and_itself_with_heads_in_another_order(self, encoder, batch):
    maps = encoder(**batch, output_attentions=True).attentions[0]
    found = np.asarray(head_distances(maps, maps[:, jnp.array([2, 0, 1])], batch["attention_mask"]))
    assert found.shape == (3, 3, 3)
    np.testing.assert_allclose(matched_distance(found), 0, atol=1e-6)
    assert found.max() > 0.1

  def test_by_definition(self, encoder, batch):
    maps = [np.asarray(one) for one in encoder(**batch, output_attentions=True).attentions]
    found = np.asarray(head_distances(maps[0], maps[1], batch["attention_mask"]))
    best = []
    for i, length in enumerate((9, 6, 4)):
      first, second = (one[i, :, :length, :length] for one in maps)
      for a, b in itertools.product(range(3), range(3)):
        expected = np.mean([abs(first[a, q] - second[b, q]).sum() for q in range(length)])
        assert found[i, a, b] == pytest.approx(expected, abs=1e-5)
      best.append(
        min(
          np.mean([found[i, a, b] for a, b in enumerate(order)])
          for order in itertools.permutations(range(3))
        )
      )
    np.testing.assert_allclose(matched_distance(found), best, atol=1e-6)

  def test_padding_does_not_count(self, encoder, batch):
    longer = {
      "ids": jnp.pad(batch["ids"], ((0, 0), (0, 3)), constant_values=7),
      "attention_mask": jnp.pad(batch["attention_mask"], ((0, 0), (0, 3))),
    }
    found = []
    for one in (batch, longer):
      maps = encoder(**one, output_attentions=True).attentions
      found.append(
        (
          head_distances(maps[0], maps[1], one["attention_mask"]),
          distances_from_uniform(maps[0], one["attention_mask"]),
        )
      )
    for a, b in zip(*found, strict=True):
      np.testing.assert_allclose(a, b, atol=1e-6)

  def test_bfloat16_maps_are_compared_in_float32(self):
    maps = jax.nn.softmax(jax.random.normal(jax.random.key(0), (2, 1, 4, 300, 300)), axis=-1)
    first, second = (np.asarray(one.astype(jnp.bfloat16), np.float64) for one in maps)
    found = head_distances(*maps.astype(jnp.bfloat16), np.ones((1, 300), bool))
    expected = np.abs(first[:, :, None] - second[:, None]).sum(-1).mean(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)

  def test_the_ends_of_the_scale(self):
    mask = np.ones((1, 4), bool)
    one = jnp.eye(4)[None, None]
    other = jnp.roll(one, 1, axis=-1)
    assert head_distances(one, other, mask)[0, 0, 0] == 2
    assert distances_from_uniform(jnp.full((1, 1, 4, 4), 0.25), mask)[0, 0] == 0
    assert distances_from_uniform(one, mask)[0, 0] == 1.5

  def test_more_heads_than_partners(self):
    assert matched_distance(np.array([[[1.0, 0.2], [0.4, 0.1], [0.9, 0.9]]]))[0] == pytest.approx(
      0.3
    )


class TestIsometry:
  @pytest.fixture
  def parts(self, encoder, batch):
    one = {name: value[1:2] for name, value in batch.items()}
    graph, state = nnx.split(encoder)

    def function(rest, x):
      return (
        nnx.merge(graph, rest["state"])
        .run_layers(x, attention_mask=rest["mask"], positions=rest["token"])
        .last_hidden_state[:, 1:]
      )

    rest = {"state": state, "mask": one["attention_mask"], "token": jnp.array([[4]])}
    return function, rest, encoder.embed(**one), encoder(**one)

  def test_layers_after_embeddings_are_the_whole_encoder(self, parts):
    function, rest, x, output = parts
    np.testing.assert_allclose(function(rest, x)[0, 0], output.last_hidden_state[0, 4], atol=1e-6)

  @pytest.mark.parametrize("outputs", [1, 5, 16])
  def test_the_jacobian_is_jaxs_own(self, parts, outputs, monkeypatch):
    function, rest, x, _ = parts
    monkeypatch.setattr(isometry, "_OUTPUTS", outputs)
    expected = jax.jacrev(lambda x: function(rest, x)[0, 0])(x)[:, 0]
    found = jacobian(function, rest, x)
    assert found.shape == (12, 9, 12)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(found[:, 6:], 0)  # padding

  def test_a_wrong_row_is_found(self, parts, monkeypatch):
    function, rest, x, _ = parts
    rows = isometry._rows

    def wrong(function, params, x, chunk, first):
      return rows(function, params, x, chunk, first) + (chunk > 1)

    monkeypatch.setattr(isometry, "_rows", wrong)
    with pytest.raises(ArithmeticError, match="compiler"):
      jacobian(function, rest, x)

  def test_singular_values(self):
    found = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    whole = np.linalg.svd(found.reshape(5, 12).astype(np.float64), compute_uv=False)
    np.testing.assert_allclose(singular_values(found), whole, rtol=1e-9)
    blocks = np.stack([np.linalg.svd(found[:, t], compute_uv=False) for t in range(3)])
    np.testing.assert_allclose(singular_values_by_token(found), blocks, rtol=1e-5)


class TestGradients:
  def test_pairs(self, tmp_path, monkeypatch):
    vectors = np.random.default_rng(0).normal(size=(7, 3000)).astype(np.float32)
    vectors[3] = 0
    monkeypatch.setattr(gradients, "_BLOCK", 700)
    path = tmp_path / "gradients.bin"
    gradients.write(path, iter(vectors), 7, 3000)
    products = gradients.products(path, 7, 3000)
    np.testing.assert_allclose(
      products, vectors.astype(np.float64) @ vectors.T, rtol=1e-9, atol=1e-6
    )
    found = gradients.compare_pairs(products)
    for k, (i, j) in enumerate(itertools.combinations(range(7), 2)):
      a, b = vectors[i].astype(np.float64), vectors[j].astype(np.float64)
      assert found["dot"][k] == pytest.approx(a @ b)
      assert found["distance"][k] == pytest.approx(np.linalg.norm(a - b))
      if 3 in (i, j):
        assert np.isnan(found["cosine"][k])
      else:
        assert found["cosine"][k] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

  def test_a_full_disk_is_told_before_anything_is_written(self, tmp_path, monkeypatch):
    usage = gradients.shutil.disk_usage(tmp_path)._replace(free=3999)
    monkeypatch.setattr(gradients.shutil, "disk_usage", lambda _: usage)
    path = tmp_path / "gradients.bin"
    with pytest.raises(OSError, match="No space") as error:
      gradients.write(path, iter([]), 10, 100)
    assert error.value.errno == errno.ENOSPC
    assert str(path) in str(error.value)
    assert not path.exists()


WEIGHTS = {"a": {"weight": np.full((50, 40), 2.0, np.float32)}, "b": np.zeros(30, np.float32)}


class TestPerturbation:
  def test_noise(self):
    noisy, same = add_noise(WEIGHTS, jax.random.key(1), jnp.float32(0.1))
    change = np.concatenate([(noisy["a"]["weight"] - 2).ravel(), noisy["b"]])
    assert change.std() == pytest.approx(0.1, rel=0.05)
    assert abs(change.mean()) < 0.01
    assert same < 0.01
    half, _ = add_noise(WEIGHTS, jax.random.key(1), jnp.float32(0.05))
    np.testing.assert_allclose(half["a"]["weight"] - 2, (noisy["a"]["weight"] - 2) / 2, atol=1e-6)

  def test_noise_that_rounding_swallows(self):
    """Half of the distance between float32 numbers above 2 is 1.2e-7."""
    _, same = add_noise(WEIGHTS, jax.random.key(1), jnp.float32(1e-8))
    assert same == pytest.approx(2000 / 2030, abs=1e-3), "only zeros take it"

  def test_distances_grow_with_the_noise(self):
    def outputs(params):
      return np.asarray(params["a"]["weight"])[:3] @ np.ones((40, 2), np.float32)

    moved, swallowed = distances(outputs, WEIGHTS, scales=(1.0, 0.01), repeats=2, seed=0)
    assert moved.shape == (2, 2, 3)
    np.testing.assert_allclose(moved[0] / moved[1], 100, rtol=0.01)
    assert not np.allclose(moved[:, 0], moved[:, 1]), "each draw is another one"
    assert swallowed.max() < 0.01


def test_the_spread_is_that_of_all_values_but_padding(batch):
  rng, mask = np.random.default_rng(0), np.asarray(batch["attention_mask"])
  values = rng.normal(5, 3, (2, 3, 9, 4)).astype(np.float32)
  spread = Spread(2)
  spread.add(list(values[:, :2]), mask[:2])
  spread.add(list(values[:, 2:]), mask[2:])
  np.testing.assert_allclose(spread.deviations, [one[mask].std() for one in values], rtol=1e-6)


def test_norm_inputs_are_what_layernorm_takes(encoder, batch):
  output = encoder.run_layers(
    encoder.embed(**batch),
    attention_mask=batch["attention_mask"],
    output_norm_inputs=True,
    output_hidden_states=True,
  )
  assert len(output.norm_inputs) == 2
  for layer, (attended, added), after in zip(
    encoder.encoder.layer, output.norm_inputs, output.hidden_states[1:], strict=True
  ):
    np.testing.assert_allclose(layer.output.LayerNorm(added), after, atol=1e-6)
    x = layer.attention.output.LayerNorm(attended)
    np.testing.assert_allclose(layer.output.add(layer.intermediate(x), x, None), added, atol=1e-5)


def test_norm_inputs_and_hidden_states_are_pytorchs(shared):
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  directory = str(shared / "models" / "bert-tiny-uncased")
  theirs = transformers.AutoModel.from_pretrained(directory).eval()
  taken = []
  for layer in theirs.encoder.layer:
    for part in (layer.attention.output.LayerNorm, layer.output.LayerNorm):
      part.register_forward_pre_hook(lambda _, inputs: taken.append(inputs[0].detach().numpy()))
  rng = np.random.default_rng(0)
  ids, mask = (
    rng.integers(1000, 2000, (4, 20)),
    np.arange(20)[None] < np.array([[20], [11], [7], [3]]),
  )
  with torch.no_grad():
    output = theirs(
      input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask), output_hidden_states=True
    )
  encoder, own_mask = models.load(directory), jnp.asarray(mask)
  ours = encoder.run_layers(
    encoder.embed(jnp.asarray(ids), attention_mask=own_mask),
    attention_mask=own_mask,
    output_norm_inputs=True,
    output_hidden_states=True,
  )
  found = [one for pair in ours.norm_inputs for one in pair]
  spreads = []
  for values in (found, taken):
    spread = Spread(4)
    spread.add([np.asarray(one) for one in values], mask)
    spreads.append(spread.deviations)
  np.testing.assert_allclose(*spreads, rtol=1e-5)
  for own, other in zip(ours.hidden_states, output.hidden_states, strict=True):
    np.testing.assert_allclose(np.asarray(own)[mask], other.numpy()[mask], atol=1e-5)
