"""Tests of the dropout of heads, which no golden file shows, against the definition of transformers' classes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.models.heads import FirstPosition

HIDDEN = 64
CONFIG = models.ModelConfig(
  vocab_size=9,
  hidden_size=HIDDEN,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=8,
  hidden_dropout_prob=0.25,
  classifier_dropout=0.5,
)


@pytest.mark.parametrize(
  ("family", "before"), [("roberta", True), ("electra", True), ("distilbert", False)]
)
def test_dropout_of_a_classifier_of_rows(family, before):
  """Without dropout before the dense layer, each of its outputs is 0 or twice what it is in evaluation."""
  config = dataclasses.replace(CONFIG, model_type=family)
  head = FirstPosition(config, HIDDEN, nnx.Rngs(0))
  head.out_proj.weight.set_value(jnp.eye(HIDDEN))  # shows the dense layer's outputs
  x = jax.random.normal(jax.random.key(1), (3, HIDDEN)) * 9
  expected = 2 * np.asarray(head(x, None))
  trained = np.asarray(head(x, jax.random.key(2)))
  kept = np.isclose(trained, expected, rtol=1e-5)
  assert bool(np.all(kept | (trained == 0))) != before
  assert 0.35 < (trained[expected != 0] == 0).mean() < 0.65


@pytest.mark.parametrize(
  ("family", "rows", "tokens", "choices"),
  [
    ("bert", 0.5, 0.5, 0.5),
    ("roberta", 0.5, 0.5, 0.25),
    ("albert", 0.5, 0.5, 0.5),
    ("electra", 0.5, 0.5, None),
    ("distilbert", 0.5, 0.25, None),
  ],
)
def test_which_dropout_a_head_has(family, rows, tokens, choices):
  """The rates are those of the classes of transformers 5: `classifier_dropout`, or that of the layers."""
  config = dataclasses.replace(CONFIG, model_type=family)
  rngs = nnx.Rngs(0)
  assert models.Classifier(2).build(config, rngs=rngs).dropout_rate == rows
  assert models.TokenClassifier(2).build(config, rngs=rngs).dropout_rate == tokens
  if choices is None:
    with pytest.raises(ValueError, match=f"{family} has no pooler for MultipleChoice"):
      models.MultipleChoice().build(config, rngs=rngs)
  else:
    assert models.MultipleChoice().build(config, rngs=rngs).dropout_rate == choices
