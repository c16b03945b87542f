"""Tests that a saved model loads with the same weights, under the names that transformers expects."""

import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from discipline_jax import models
from discipline_jax.errors import UserError
from tests.models.parameters import flat

FAMILIES = (
  "bert_relu",
  "roberta_gelu",
  "albert_groups",
  "electra_narrow",
  "electra_square",
  "distilbert_gelu",
)
HEADS = {
  "none": None,
  "classifier": models.Classifier(3),
  "regressor": models.Classifier(1),
  "tokens": models.TokenClassifier(4),
  "span": models.Span(),
  "choice": models.MultipleChoice(),
  "lm": models.Pretraining(next_sentence=False),
}


@pytest.mark.parametrize(
  ("family", "head"),
  [
    *(("bert_relu", head) for head in HEADS),
    *((f, h) for f in FAMILIES[1:] for h in ("none", "classifier", "lm")),
    *((f, h) for f in FAMILIES[3:] for h in ("tokens", "span")),
  ],
)
def test_load_save_load_gives_identical_tensors(family, head, testdata, tmp_path, caplog):
  model = models.load(str(testdata / "families" / family), HEADS[head], seed=3)
  models.save(model, tmp_path / "a")
  caplog.clear()
  again = models.load(str(tmp_path / "a"), HEADS[head], seed=4)
  assert caplog.text == ""
  ours, theirs = flat(model), flat(again)
  assert ours.keys() == theirs.keys()
  for name, value in ours.items():
    np.testing.assert_array_equal(value, theirs[name])
  models.save(again, tmp_path / "b")
  for name in ("config.json", "model.safetensors"):
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_names_are_those_of_transformers(family, testdata, tmp_path):
  """The source was written by transformers. Only unused heads and the tied output layer may be left out."""
  source = testdata / "families" / family
  theirs = load_file(source / "model.safetensors")
  model = models.load(str(source), models.Pretraining(next_sentence=False))
  models.save(model, tmp_path)
  ours = load_file(tmp_path / "model.safetensors")
  for name, value in ours.items():
    np.testing.assert_array_equal(value, theirs[name])
  heads = ("classifier.", "pre_classifier.", "cls.seq_relationship.")
  left_out = {
    name
    for name in theirs.keys() - ours.keys()
    if not name.startswith(heads) and ".pooler." not in name
  }
  tied = (".decoder.", "vocab_projector.weight", "generator_lm_head.weight")
  assert all(any(one in name for one in tied) for name in left_out), left_out


def test_the_config_names_the_class_and_the_labels(testdata, tmp_path):
  model = models.load(str(testdata / "families" / "albert_groups"), models.Classifier(2))
  models.save(model, tmp_path, labels=("no", "yes"))
  config = json.loads((tmp_path / "config.json").read_text())
  assert config["architectures"] == ["AlbertForSequenceClassification"]
  assert config["id2label"] == {"0": "no", "1": "yes"}
  assert config["label2id"] == {"no": 0, "yes": 1}
  assert config["classifier_dropout_prob"] == 0.1
  assert config["num_hidden_groups"] == 2
  assert models.read_config(tmp_path) == model.base_model.config
  with pytest.raises(ValueError, match="3 .* 2 "):
    models.save(model, tmp_path, labels=("a", "b", "c"))


def test_bfloat16_halves_the_file(testdata, tmp_path):
  model = models.load(str(testdata / "families" / "bert_relu"))
  models.save(model, tmp_path / "whole")
  models.save(model, tmp_path / "half", dtype=jnp.bfloat16)
  sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
  assert sizes[1] < 0.6 * sizes[0]
  again = flat(models.load(str(tmp_path / "half")))
  for name, value in flat(model).items():
    np.testing.assert_array_equal(again[name], value.astype(jnp.bfloat16).astype(np.float32))


def test_the_tokenizer_is_copied_and_another_models_files_are_deleted(testdata, tmp_path):
  source = tmp_path / "source"
  shutil.copytree(testdata / "families" / "bert_relu", source)
  (source / "vocab.txt").write_text("of the source\n")
  out = tmp_path / "out"
  out.mkdir()
  (out / "tokenizer.json").write_text("of another")
  (out / "notes.md").write_text("mine")
  models.save(models.load(str(source)), out)
  assert (out / "vocab.txt").read_text() == "of the source\n"
  assert not (out / "tokenizer.json").exists()
  assert (out / "notes.md").read_text() == "mine"


def test_saving_into_its_own_source(testdata, tmp_path):
  source = tmp_path / "source"
  shutil.copytree(testdata / "families" / "bert_relu", source)
  (source / "vocab.txt").write_text("of the source\n")
  model = models.load(str(source))
  before = flat(model)
  models.save(model, source)
  assert (source / "vocab.txt").read_text() == "of the source\n"
  jax.tree.map(np.testing.assert_array_equal, before, flat(models.load(str(source))))


def test_a_directory_that_cannot_be_written(testdata, tmp_path):
  model = models.load(str(testdata / "families" / "bert_relu"))
  (tmp_path / "file").write_text("")
  with pytest.raises(UserError, match=str(tmp_path / "file" / "out")):
    models.save(model, tmp_path / "file" / "out")
  assert list(tmp_path.iterdir()) == [tmp_path / "file"]
  with pytest.raises(ValueError, match=r"dtype float16\b"):
    models.save(model, pathlib.Path(tmp_path / "x"), dtype=jnp.float16)
