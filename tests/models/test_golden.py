"""Tests of outputs and of training against transformers; testdata/make_golden.py made the expected values."""

import dataclasses
import pathlib
from functools import partial

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import SubTable, initial_params, word_embeddings
from discipline_jax.tasks.answers import Class
from discipline_jax.training.optimizers import learning_rates, make_optimizer
from discipline_jax.training.samples import Batch, Samples, sample_loss
from discipline_jax.training.sharding import make_mesh
from discipline_jax.training.state import TrainState
from discipline_jax.training.update import make_train_step

NAMES = ("bert_small", "minilm-l6-uncased", "bert-tiny-uncased")


@pytest.fixture(params=NAMES)
def golden(request, testdata) -> tuple[pathlib.Path, dict[str, np.ndarray]]:
  """Returns a checkpoint, and PyTorch's outputs for it."""
  folder = (
    testdata if request.param == "bert_small" else request.getfixturevalue("shared") / "models"
  )
  return folder / request.param, dict(np.load(testdata / f"{request.param}.npz"))


def test_outputs_equal_pytorch(golden):
  directory, expected = golden
  encoder = models.load(str(directory))
  if "pooler_weight" in expected:
    encoder.pooler.dense.weight.set_value(jnp.asarray(expected["pooler_weight"]))
    encoder.pooler.dense.bias.set_value(jnp.asarray(expected["pooler_bias"]))
  output = nnx.jit(
    lambda encoder: encoder(
      jnp.asarray(expected["ids"]),
      attention_mask=jnp.asarray(expected["attention_mask"]),
      token_type_ids=jnp.asarray(expected["token_type_ids"]),
      output_hidden_states=True,
      output_attentions=True,
    )
  )(encoder)
  np.testing.assert_allclose(
    output.last_hidden_state, expected["last_hidden_state"], atol=1e-5, rtol=0
  )
  np.testing.assert_allclose(output.pooler_output, expected["pooler_output"], atol=1e-5, rtol=0)
  if "hidden_states" in expected:
    np.testing.assert_allclose(
      np.stack(output.hidden_states), expected["hidden_states"], atol=1e-5, rtol=0
    )
    np.testing.assert_allclose(
      np.stack(output.attentions), expected["attentions"], atol=1e-5, rtol=0
    )


def test_twenty_adam_steps_equal_pytorch(golden):
  """Here only the task's rows of the embedding table are trained; PyTorch trains the whole table."""
  directory, expected = golden
  config, head = models.read_config(directory), models.Classifier(3)
  params = initial_params("pretrained", config, head, directory, seed=0)
  params["classifier"] = {
    "weight": jnp.asarray(expected["classifier_weight"]),
    "bias": jnp.asarray(expected["classifier_bias"]),
  }
  if "pooler_weight" in expected:
    params["base_model"]["pooler"]["dense"] = {
      "weight": jnp.asarray(expected["pooler_weight"]),
      "bias": jnp.asarray(expected["pooler_bias"]),
    }
  sub_table = SubTable.reachable(expected["rows"])
  word_embeddings(params)["weight"] = sub_table.cut(word_embeddings(params)["weight"])
  params = jax.tree.map(lambda leaf: leaf[None], params)
  num_steps = len(expected["losses"])
  forward = classifier_function(
    dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), head
  )
  train = ml_collections.ConfigDict(
    {
      "optimizer": "adam",
      "learning_rate": float(expected["learning_rate"]),
      "warmup_steps": 0,
      "weight_decay": 0.0,
      "max_grad_norm": None,
    }
  )
  state = TrainState.create(params, make_optimizer(train, lambda _: 0.0))
  rates = learning_rates(train, num_steps)
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  labels = jnp.asarray(expected["labels"])
  samples = Samples(jnp.asarray(expected["symbols"]), None, {"labels": labels})
  lookup, seeds = jnp.asarray(sub_table.lookup)[None], jnp.zeros(1, jnp.int32)
  loss = sample_loss(forward, Class(("a", "b", "c")), samples.symbols.shape[1])
  step = make_train_step(loss, partial(make_optimizer, train), mesh, state)
  parts = 2 if directory.name == "bert_small" else 1  # gradient accumulation
  batches = np.arange(len(expected["labels"]), dtype=np.int32).reshape(-1, 1, parts, 8 // parts)
  losses = []
  for number in range(num_steps):
    batch = Batch(jnp.asarray(batches[number % len(batches)]), lookup, seeds)
    state, metrics = step(state, rates[number], samples, batch)
    losses.append(float(metrics["loss"][0]))
  np.testing.assert_allclose(losses, expected["losses"], atol=1e-4, rtol=0)
