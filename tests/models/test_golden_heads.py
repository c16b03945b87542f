"""Tests losses and gradients of heads against transformers; testdata/make_heads.py made the expected values."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.traverse_util import flatten_dict

from discipline_jax import models
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import initial_params
from discipline_jax.models.names import checkpoint_name
from discipline_jax.tasks.label_sets import LabelSet
from discipline_jax.tasks.tags import Tags
from discipline_jax.training.samples import Batch, Samples, outputs_of, sample_loss
from discipline_jax.training.update import accumulated_gradient

NAMES = tuple("abcde")
# -100 stands for a position that is not scored in PyTorch, and any negative number here.
ANSWERS = {"tags": Tags(NAMES), "several": LabelSet(NAMES)}


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", ANSWERS)
def test_logits_loss_and_gradients(name, parts, testdata):
  expected = dict(np.load(testdata / "heads.npz"))
  directory, answer = testdata / "bert_small", ANSWERS[name]
  config = dataclasses.replace(
    models.read_config(directory), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
  )
  params = initial_params("pretrained", config, answer.head, directory, seed=0)
  params["classifier"] = {
    part: jnp.asarray(expected[f"{name}.{part}"]) for part in ("weight", "bias")
  }
  ids = expected["ids"]
  labels = jnp.asarray(expected[f"{name}.labels"])
  samples = Samples(jnp.asarray(ids), None, {"labels": labels})
  forward = classifier_function(config, answer.head)
  indices = jnp.arange(len(ids), dtype=jnp.int32)
  batch = Batch(indices.reshape(parts, -1), jnp.arange(config.vocab_size), jnp.int32(0))
  outputs = outputs_of(forward)(
    params, samples, dataclasses.replace(batch, indices=indices), ids.shape[1]
  )
  scored = (ids != 0) if outputs.ndim == 3 else np.ones(len(ids), bool)
  np.testing.assert_allclose(
    np.asarray(outputs)[scored], expected[f"{name}.logits"][scored], atol=2e-5
  )
  loss = sample_loss(forward, answer, ids.shape[1])(jnp.int32(0), samples, batch)
  (value, _), gradient = jax.jit(lambda p: accumulated_gradient(loss.function, p, *loss.parts))(
    params
  )
  assert float(value) == pytest.approx(float(expected[f"{name}.loss"]), abs=1e-4)
  prefix, seen = f"{name}.gradient.", set()
  for path, ours in flatten_dict(gradient).items():
    own = ".".join(map(str, path))
    if path[0] == "base_model":
      own = f"{config.model_type}.{checkpoint_name(own.removeprefix('base_model.'), config)}"
    seen.add(prefix + own)
    theirs = expected[prefix + own]
    np.testing.assert_allclose(
      ours, theirs, atol=1e-4 * max(np.abs(theirs).max(), 1e-4), rtol=0, err_msg=own
    )
  assert seen == {key for key in expected if key.startswith(prefix)}
