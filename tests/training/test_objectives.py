"""Tests losses and steps of pre-training against PyTorch (testdata/make_pretraining.py) and the definitions."""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.traverse_util import flatten_dict
from jax.sharding import NamedSharding, PartitionSpec

from discipline_jax import models
from discipline_jax.corpora.masking import MaskedBatch, Masking
from discipline_jax.models.functional import pretraining_function
from discipline_jax.models.huggingface import load_params
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.training.objectives import (
  KINDS,
  Objective,
  RowBatch,
  _sums,
  held_out_sums,
  pretraining_loss,
)
from discipline_jax.training.sharding import BATCH, make_mesh, platform_of, put, state_shardings
from discipline_jax.training.state import TrainState
from discipline_jax.training.update import make_eval_step, make_train_step

SIZES = models.ModelConfig(
  vocab_size=40,
  hidden_size=16,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=24,
  max_position_embeddings=16,
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
)
VOCABULARY = make_vocabulary([f"w{i}" for i in range(35)], 40)


@pytest.fixture(scope="module")
def golden():
  folder = pathlib.Path(__file__).parents[1] / "testdata"
  return folder / "families" / "bert_relu", dict(np.load(folder / "pretraining.npz"))


def checkpoint_params(directory, config, head):
  def draw(key):
    return nnx.to_pure_dict(nnx.state(head.build(config, rngs=key_stream(key))))

  key = jax.random.key(0)
  return load_params(directory, config, jax.eval_shape(draw, key), jax.jit(draw), key)


def assert_gradients_equal(ours: dict, expected: dict, prefix: str) -> None:
  compared = 0
  for path, value in flatten_dict(ours).items():
    name = ".".join(map(str, path))
    name = name.replace("base_model.", "bert.", 1)
    if f"{prefix}.{name}" in expected:
      np.testing.assert_allclose(value, expected[f"{prefix}.{name}"], atol=1e-4, rtol=0)
      compared += 1
  theirs = {name for name in expected if name.startswith(f"{prefix}.")}
  assert compared == len(theirs - {f"{prefix}.cls.predictions.decoder.bias"})


@pytest.mark.parametrize("remat", [False, True])
def test_masked_tokens_and_next_sentences_as_in_pytorch(golden, remat):
  directory, expected = golden
  config = models.read_config(directory)
  head = models.Pretraining(remat=remat)
  params = checkpoint_params(directory, config, head)
  forward = pretraining_function(config, head)
  objective = Objective("mlm_nsp", Masking(), make_vocabulary(["x"], config.vocab_size))
  # Their labels as our places, the surplus ones at the end.
  places = [np.flatnonzero(row >= 0) for row in expected["labels"]]
  width = max(map(len, places)) + 1
  positions, labels, weights = (np.zeros((4, width), dtype) for dtype in ("i4", "i4", "f4"))
  for row, own in enumerate(places):
    positions[row, : len(own)] = own
    labels[row, : len(own)] = expected["labels"][row, own]
    weights[row, : len(own)] = 1
  hidden = MaskedBatch(*map(jnp.asarray, (expected["input_ids"], positions, labels, weights)))
  rows = RowBatch(
    *map(
      jnp.asarray, (expected["originals"], expected["boundary"], expected["next_sentence_label"])
    )
  )

  @jax.jit
  @jax.value_and_grad
  def loss_of(params):
    return objective.means(objective.sums(forward, params, rows, hidden, None))["loss"]

  loss, gradient = loss_of(params)
  assert float(loss) == pytest.approx(float(expected["loss"]), abs=1e-5)
  assert_gradients_equal(gradient, expected, "both")


def test_left_to_right_as_in_pytorch(golden):
  directory, expected = golden
  config = models.ModelConfig.from_dict(
    {**json.loads((directory / "config.json").read_text()), "is_decoder": True}, "here"
  )
  head = models.Pretraining(next_sentence=False)
  params = checkpoint_params(directory, config, head)
  forward = pretraining_function(config, head)
  objective = Objective("causal", Masking(), make_vocabulary(["x"], config.vocab_size))
  ids = jnp.asarray(expected["originals"])
  rows = RowBatch(ids, jnp.asarray(expected["boundary"]), jnp.zeros(4, jnp.int32))
  hidden = objective.hide(jax.random.key(0), ids)

  @jax.jit
  @jax.value_and_grad
  def loss_of(params):
    return objective.means(objective.sums(forward, params, rows, hidden, None))["loss"]

  loss, gradient = loss_of(params)
  assert float(loss) == pytest.approx(float(expected["causal_loss"]), abs=1e-5)
  assert_gradients_equal(gradient, expected, "causal")


def test_left_to_right_sees_nothing_that_follows():
  """Gradients show that the output at a position does not depend on later embeddings."""
  config = dataclasses.replace(SIZES, is_decoder=True)
  encoder = models.Encoder(config, rngs=nnx.Rngs(0))
  ids = jnp.arange(5, 13)[None]
  for position in (0, 3, 7):
    graph, state = nnx.split(encoder)

    def scalar(table, position=position, graph=graph, state=state):
      model = nnx.merge(graph, state)
      model.embeddings.word_embeddings.weight = nnx.Param(table)
      return model(ids).last_hidden_state[0, position] @ jnp.arange(16.0)

    gradient = jax.jit(jax.grad(scalar))(encoder.embeddings.word_embeddings.weight[...])
    touched = np.abs(gradient).sum(1) > 0
    np.testing.assert_array_equal(np.flatnonzero(touched), np.arange(5, 13)[: position + 1])


def test_left_to_right_is_summed_up_by_its_last_token():
  encoder = models.Encoder(dataclasses.replace(SIZES, is_decoder=True), rngs=nnx.Rngs(0))
  ids = jnp.array([[5, 6, 7, 8]])
  short = encoder(ids[:, :3]).pooler_output
  padded = encoder(ids, attention_mask=jnp.array([[1, 1, 1, 0]])).pooler_output
  np.testing.assert_allclose(padded, short, atol=1e-6)


def batch(rng, rows=16, length=12, parts=1):
  lengths = rng.integers(6, length + 1, rows)
  ids = rng.integers(5, 40, (rows, length))
  ids[np.arange(length)[None] >= lengths[:, None]] = 0
  ids[:, 0] = 2
  boundary = lengths // 2
  ids[np.arange(rows), boundary - 1] = 3
  ids[np.arange(rows), lengths - 1] = 3

  def cut(values):
    return jnp.asarray(values.reshape(parts, -1, *values.shape[1:]))

  return RowBatch(
    cut(ids.astype(np.uint16)),
    cut(boundary.astype("i4")),
    cut(rng.integers(0, 2, rows).astype("i4")),
  )


def state_and_step(kind, optimizer, mesh, seed=0, sizes=SIZES):
  head = models.Pretraining(next_sentence=KINDS[kind][1] is not None)
  params = nnx.to_pure_dict(nnx.state(head.build(sizes, rngs=nnx.Rngs(1))))
  params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
  state = TrainState.create(params, optimizer)
  state = put(state, state_shardings(mesh, state))
  objective = Objective(kind, Masking(), VOCABULARY)
  forward = pretraining_function(sizes, head, platform=platform_of(mesh))
  loss = pretraining_loss(forward, objective, seed)
  train = make_train_step(loss, lambda _: optimizer, mesh, state)
  evaluate = make_eval_step(held_out_sums(forward, objective), mesh)
  spread = NamedSharding(mesh, PartitionSpec(None, BATCH))
  return (
    state,
    lambda state, rows: train(state, 0.0, jax.device_put(rows, spread), None),
    lambda params, rows, number: evaluate(params, (rows, number), None),
  )


@pytest.mark.parametrize("kind", ["mlm_sop", "causal"])
def test_training_lowers_the_losses(kind):
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  state, step, evaluate = state_and_step(kind, optax.adam(1e-2), mesh)
  rows = batch(np.random.default_rng(0))
  first = last = None
  for _ in range(40):
    state, metrics = step(state, rows)
    last = float(metrics["loss"][0])
    first = last if first is None else first
  assert last < 0.9 * first
  tokens, segments = KINDS[kind]
  names = {
    f"{task}_{what}" for task in filter(None, (tokens, segments)) for what in ("loss", "accuracy")
  }
  assert metrics.keys() == {"loss", "grad_norm", *names}
  assert float(metrics["loss"][0]) == pytest.approx(
    sum(float(metrics[f"{task}_loss"][0]) for task in filter(None, (tokens, segments))), rel=1e-5
  )
  sums = evaluate(state.params, jax.tree.map(lambda x: x[0], rows), np.int32(3))
  again = evaluate(state.params, jax.tree.map(lambda x: x[0], rows), np.int32(3))
  for name, value in sums.items():
    np.testing.assert_array_equal(value, again[name])  # the masks are fixed


def losses_on(data, fsdp, tensor):
  """Returns the losses of ten updates with dropout, of a vocabulary that no axis divides, and of a held-out batch."""
  mesh = make_mesh(data, fsdp, tensor, jax.devices()[: data * fsdp * tensor])
  sizes = dataclasses.replace(
    SIZES,
    vocab_size=41,
    num_attention_heads=4,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.2,
  )
  state, step, evaluate = state_and_step("mlm_nsp", optax.adam(1e-3), mesh, sizes=sizes)
  rng = np.random.default_rng(0)
  found = []
  for _ in range(10):
    state, metrics = step(state, batch(rng))
    found.append(float(metrics["loss"][0]))
  rows = jax.tree.map(lambda x: x[0], batch(rng))
  return [
    *found,
    *(float(value[0]) for value in evaluate(state.params, rows, np.int32(0)).values()),
  ]


@pytest.fixture(scope="module")
def losses_of_one():
  return losses_on(1, 1, 1)


@pytest.mark.parametrize("mesh", [(8, 1, 1), (1, 8, 1), (2, 2, 2), (1, 1, 4)])
def test_a_mesh_gives_the_losses_of_one_device(mesh, losses_of_one):
  np.testing.assert_allclose(losses_on(*mesh), losses_of_one, rtol=1e-5, atol=1e-5)


def test_parts_add_up_to_the_whole():
  """The model is left-to-right and has no dropout: random masks would differ with the number of parts."""
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  norms = []
  for parts in (1, 4):
    state, step, _ = state_and_step("causal", optax.sgd(0.1), mesh)
    _, metrics = step(state, batch(np.random.default_rng(5), parts=parts))
    norms.append((float(metrics["loss"][0]), float(metrics["grad_norm"][0])))
  np.testing.assert_allclose(norms[0], norms[1], rtol=1e-5)


def test_rows_of_padding_count_for_nothing():
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  state, _, evaluate = state_and_step("mlm_nsp", optax.sgd(0.1), mesh)
  rows = jax.tree.map(lambda x: x[0], batch(np.random.default_rng(1), rows=4))
  empty = RowBatch(*(jnp.zeros_like(value) for value in (rows.ids, rows.boundary, rows.label)))
  sums = evaluate(state.params, empty, np.int32(0))
  assert {float(value[0]) for value in sums.values()} == {0.0}


def test_accuracy_by_hand():
  logits = jnp.array([[0.0, 2.0, 1.0], [3.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
  sums = _sums("mlm", logits, jnp.array([1, 1, 2]), jnp.array([1.0, 1.0, 0.0]))
  assert float(sums["mlm_accuracy"]) == 1
  assert float(sums["mlm_count"]) == 2
  expected = -np.log(np.exp(2) / (1 + np.exp(2) + np.e)) - np.log(np.e / (np.exp(3) + np.e + 1))
  assert float(sums["mlm_loss"]) == pytest.approx(expected, rel=1e-6)
