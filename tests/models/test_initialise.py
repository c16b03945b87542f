"""Tests of a model's initial weights."""

import dataclasses
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from flax.traverse_util import flatten_dict
from safetensors.numpy import load_file, save_file

from discipline_jax import models
from discipline_jax.models.initialise import (
  INITS,
  SubTable,
  abstract_params,
  initial_params,
  word_embeddings,
)
from tests.models.gradients import CONFIG

TASK_HEADS = [
  models.Classifier(2),
  models.TokenClassifier(2),
  models.Span(),
  models.MultipleChoice(),
]


def test_scratch_is_the_default_initialiser():
  params = initial_params(
    "scratch", dataclasses.replace(CONFIG, vocab_size=4000), models.Classifier(2), None, seed=0
  )
  weight = word_embeddings(params)["weight"]
  assert abs(float(weight.std()) - 0.02) < 2e-4
  assert abs(float(weight.mean())) < 3e-4
  layer = params["base_model"]["encoder"]["layer"][1]
  np.testing.assert_array_equal(layer["output"]["LayerNorm"]["weight"], 1)
  np.testing.assert_array_equal(layer["output"]["LayerNorm"]["bias"], 0)
  np.testing.assert_array_equal(layer["intermediate"]["dense"]["bias"], 0)


def test_inits_differ_where_they_should(testdata):
  config = models.read_config(testdata / "bert_small")
  made = {
    init: initial_params(init, config, models.Classifier(2), testdata / "bert_small", seed=4)
    for init in INITS
  }
  for init in ("scratch", "re_emb"):  # the same seed, the same head
    np.testing.assert_array_equal(
      made["pretrained"]["classifier"]["weight"], made[init]["classifier"]["weight"]
    )
  np.testing.assert_array_equal(
    word_embeddings(made["re_emb"])["weight"], word_embeddings(made["scratch"])["weight"]
  )
  assert not np.allclose(
    word_embeddings(made["re_emb"])["weight"], word_embeddings(made["pretrained"])["weight"]
  )
  for part in ("encoder", "pooler"):
    jax.tree.map(
      np.testing.assert_array_equal,
      made["re_emb"]["base_model"][part],
      made["pretrained"]["base_model"][part],
    )
  assert not np.allclose(
    made["scratch"]["base_model"]["pooler"]["dense"]["weight"],
    made["pretrained"]["base_model"]["pooler"]["dense"]["weight"],
  )


def outside_encoder(params) -> dict[str, np.ndarray]:
  """Returns the parameters outside the encoder, under their dotted names."""
  return {
    ".".join(path): leaf for path, leaf in flatten_dict(params).items() if path[0] != "base_model"
  }


def with_head(source, directory, head) -> pathlib.Path:
  """Copies a checkpoint and gives it weights for `head`, of the right shapes and all 1."""
  shutil.copytree(source, directory)
  tensors = load_file(directory / "model.safetensors")
  shapes = outside_encoder(abstract_params(models.read_config(directory), head))
  tensors |= {name: np.ones(leaf.shape, np.float32) for name, leaf in shapes.items()}
  save_file(tensors, directory / "model.safetensors")
  return directory


@pytest.mark.parametrize("head", TASK_HEADS, ids=lambda head: type(head).__name__)
def test_a_task_head_is_random_even_if_the_checkpoint_has_one(testdata, tmp_path, head):
  directory = with_head(testdata / "bert_small", tmp_path / "checkpoint", head)
  config = models.read_config(directory)
  for value in outside_encoder(
    nnx.to_pure_dict(nnx.state(models.load(str(directory), head)))
  ).values():
    np.testing.assert_array_equal(value, 1)
  made = {
    init: outside_encoder(initial_params(init, config, head, directory, seed=4)) for init in INITS
  }
  for name, value in made["scratch"].items():
    assert abs(value).max() < 0.2
    np.testing.assert_array_equal(made["pretrained"][name], value)
    np.testing.assert_array_equal(made["re_emb"][name], value)
  assert all(values.keys() == made["scratch"].keys() for values in made.values())


@pytest.mark.parametrize("init", ["pretrained", "re_emb"])
def test_the_head_of_a_pretraining_is_the_checkpoints(testdata, tmp_path, init):
  head = models.Pretraining()
  directory = with_head(testdata / "bert_small", tmp_path / "checkpoint", head)
  config = models.read_config(directory)
  params = initial_params(init, config, head, directory, seed=4)
  assert len(outside_encoder(params)) == 7
  for value in outside_encoder(params).values():
    np.testing.assert_array_equal(value, 1)


def test_abstract_params_are_the_shapes_of_the_parameters():
  for head in (*TASK_HEADS, models.Pretraining()):
    params = initial_params("scratch", CONFIG, head, None, seed=0)
    expected = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    assert abstract_params(CONFIG, head) == expected


def test_word_embeddings_are_replaced_in_place():
  params = initial_params("scratch", CONFIG, models.Span(), None, seed=0)
  assert word_embeddings(params)["weight"].shape == (40, 16)
  word_embeddings(params)["weight"] = np.zeros((3, 16))
  assert params["base_model"]["embeddings"]["word_embeddings"]["weight"].shape == (3, 16)


class TestSubTable:
  table = jnp.arange(20.0).reshape(10, 2)

  @pytest.mark.parametrize("symbol_rows", [[7, 2, 5], [7, 7, 2], [0, 1, 0, 1], [9]])
  def test_each_symbol_finds_its_row(self, symbol_rows):
    symbol_rows = np.array(symbol_rows, np.int32)
    for sub_table in (SubTable.reachable(symbol_rows), SubTable.whole(symbol_rows, 10)):
      cut = sub_table.cut(self.table)
      np.testing.assert_array_equal(cut, self.table[sub_table.rows])
      np.testing.assert_array_equal(cut[sub_table.lookup], self.table[symbol_rows])

  def test_the_size_is_the_number_of_symbols(self):
    """Replicas whose token maps send different symbols to one row are stacked."""
    for symbol_rows in ([7, 2, 5], [7, 7, 2], [1, 1, 1], [0, 0, 1]):
      rows = SubTable.reachable(np.array(symbol_rows, np.int32)).rows
      assert len(np.unique(rows)) == len(rows) == 3

  def test_the_whole_table(self):
    sub_table = SubTable.whole(np.array([7, 2], np.int32), 10)
    np.testing.assert_array_equal(sub_table.rows, np.arange(10))
    np.testing.assert_array_equal(sub_table.lookup, [7, 2])


def test_controls_keep_the_statistics_or_the_values_of_each_tensor(testdata):
  directory = testdata / "bert_small"
  config, head = models.read_config(directory), models.Classifier(2)
  made = {
    init: flatten_dict(initial_params(init, config, head, directory, seed=4))
    for init in ("pretrained", "statistics", "shuffled")
  }
  for path, value in made["pretrained"].items():
    value = np.asarray(value)
    drawn, shuffled = (np.asarray(made[init][path]) for init in ("statistics", "shuffled"))
    if path[0] != "base_model":  # the same random head
      np.testing.assert_array_equal(drawn, value)
      np.testing.assert_array_equal(shuffled, value)
      continue
    assert drawn.dtype == shuffled.dtype == value.dtype
    np.testing.assert_array_equal(np.sort(shuffled, axis=None), np.sort(value, axis=None))
    error = value.std() / value.size**0.5  # of the mean
    assert abs(drawn.mean() - value.mean()) <= 5 * error
    assert abs(drawn.std() - value.std()) <= 5 * error
    if value.std() > 0:
      assert not np.array_equal(drawn, value)
      assert value.size < 8 or not np.array_equal(shuffled, value)
  again = initial_params("statistics", config, head, directory, seed=4)
  other = initial_params("statistics", config, head, directory, seed=5)
  table = made["statistics"]["base_model", "embeddings", "word_embeddings", "weight"]
  np.testing.assert_array_equal(word_embeddings(again)["weight"], table)
  assert not np.array_equal(word_embeddings(other)["weight"], table)


@pytest.mark.parametrize("kept", [(), (1,), (0, 1, 2)])
def test_other_layers_than_the_pretrained_ones_are_random(testdata, kept):
  directory = testdata / "bert_small"
  config, head = models.read_config(directory), models.Classifier(2)

  def params(init, **fields):
    return flatten_dict(initial_params(init, config, head, directory, seed=4, **fields))

  made, whole, scratch = (
    params("pretrained", pretrained_layers=kept),
    params("pretrained"),
    params("scratch"),
  )
  for path, value in made.items():
    is_drawn = "layer" in path and path[path.index("layer") + 1] not in kept
    np.testing.assert_array_equal(value, (scratch if is_drawn else whole)[path])
