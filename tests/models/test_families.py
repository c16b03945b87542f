"""Tests of all families against transformers; testdata/make_families.py made the expected values."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.traverse_util import flatten_dict

from discipline_jax import models
from discipline_jax.models.names import checkpoint_name

SMALL = (
  *("bert_relu", "roberta_gelu", "roberta_silu", "albert_groups", "albert_shared"),
  *("electra_narrow", "electra_square", "distilbert_gelu", "distilbert_relu"),
)
REAL = ("minilm-l6-uncased", "bert-tiny-uncased", "albert-smiles", "roberta-antibody")
ATOL = 2e-5


def batch(expected) -> dict:
  names = ("attention_mask", "token_type_ids")  # DistilBERT has no segments
  return {name: jnp.asarray(expected[name]) for name in names if name in expected}


@pytest.fixture
def golden(request, testdata):
  """Returns a checkpoint, and PyTorch's outputs for it."""
  folder = testdata / "families"
  if request.param in SMALL:
    return folder / request.param, dict(np.load(folder / request.param / "golden.npz"))
  directory = request.getfixturevalue("shared") / "models" / request.param
  return directory, dict(np.load(folder / f"{request.param}.npz"))


@pytest.mark.parametrize("golden", [*SMALL, *REAL], indirect=True)
def test_every_layer(golden):
  directory, expected = golden
  output = nnx.jit(
    lambda encoder: encoder(
      jnp.asarray(expected["input_ids"]),
      **batch(expected),
      output_hidden_states=True,
      output_attentions=True,
    )
  )(models.load(str(directory)))
  kept = expected["attention_mask"].astype(bool)
  assert len(output.hidden_states) == len(expected["hidden_states"])
  for ours, theirs in zip(output.hidden_states, expected["hidden_states"], strict=True):
    np.testing.assert_allclose(np.asarray(ours)[kept], theirs, atol=ATOL, rtol=0)
  for ours, theirs in zip(output.attentions, expected["attentions"], strict=True):
    np.testing.assert_allclose(ours[0], theirs, atol=ATOL, rtol=0)
  if "pooler_output" in expected:
    np.testing.assert_allclose(output.pooler_output, expected["pooler_output"], atol=ATOL, rtol=0)


@pytest.mark.parametrize(
  "golden", [*SMALL, *REAL[1:]], indirect=True
)  # MiniLM's checkpoint has no head
def test_pretraining_heads(golden):
  directory, expected = golden
  two = "seq_relationship_logits" in expected
  model = models.load(str(directory), models.Pretraining(next_sentence=two))
  ids = jnp.asarray(expected["input_ids"])
  places = jnp.array([[3, 0], [0, 0], [6, 2]])
  output, some = nnx.jit(
    lambda model: (model(ids, **batch(expected)), model(ids, **batch(expected), positions=places))
  )(model)
  kept = expected["attention_mask"].astype(bool)
  columns = expected["prediction_logits"].shape[-1]
  logits = np.asarray(output.prediction_logits)[kept][:, :columns]
  np.testing.assert_allclose(logits, expected["prediction_logits"], atol=2 * ATOL, rtol=0)
  if two:
    np.testing.assert_allclose(
      output.seq_relationship_logits, expected["seq_relationship_logits"], atol=ATOL, rtol=0
    )
  for row in (0, 2):
    np.testing.assert_allclose(
      some.prediction_logits[row], output.prediction_logits[row, places[row]], atol=ATOL
    )


@pytest.mark.parametrize("name", SMALL)
def test_classifier_and_its_gradients(name, testdata):
  directory = testdata / "families" / name
  expected = dict(np.load(directory / "golden.npz"))
  model = models.load(str(directory), models.Classifier(3))
  ids = jnp.asarray(expected["input_ids"])

  def loss(model) -> tuple[jax.Array, jax.Array]:
    logits = model(ids, **batch(expected))
    labels = jnp.asarray(expected["labels"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), logits

  gradient, logits = nnx.jit(nnx.grad(loss, has_aux=True))(model)
  np.testing.assert_allclose(logits, expected["logits"], atol=ATOL, rtol=0)
  config = model.base_model.config
  seen = set()
  for path, ours in flatten_dict(nnx.to_pure_dict(gradient)).items():
    name = ".".join(map(str, path))
    theirs = checkpoint_name(name.removeprefix("base_model."), config)
    theirs = (
      f"gradient.{config.model_type}.{theirs}" if path[0] == "base_model" else f"gradient.{theirs}"
    )
    if theirs not in expected:
      np.testing.assert_array_equal(ours, 0)
      continue
    seen.add(theirs)
    scale = np.abs(expected[theirs]).max()
    np.testing.assert_allclose(ours, expected[theirs], atol=1e-4 * max(scale, 1e-4), rtol=0)
  assert seen == {key for key in expected if key.startswith("gradient.")}
