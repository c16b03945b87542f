"""Tests PLUS-TFM: the conversion of its authors' checkpoint, and the network against PyTorch."""

import dataclasses
import pathlib
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.traverse_util import flatten_dict
from safetensors.numpy import load_file

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.embeddings import sinusoids
from discipline_jax.models.plus_tfm import TOKENS, _name, convert
from discipline_jax.models.tokenizer import load_vocabulary, make_vocabulary
from discipline_jax.tasks.answers import Value
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.features import featurise
from discipline_jax.tasks.protein import ALPHABET
from tests.tasks.own_tables import read
from tests.testdata.small_files import write_data

TESTDATA = pathlib.Path(__file__).parents[1] / "testdata"
HEADS = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
  directory = tmp_path_factory.mktemp("plus") / "new" / "model"
  convert(TESTDATA / "plus_tfm.pt", directory, num_attention_heads=HEADS)
  return directory


@pytest.fixture(scope="module")
def golden():
  with np.load(TESTDATA / "plus_tfm.npz") as arrays:
    return dict(arrays)


def inputs(golden):
  return {
    "ids": jnp.array(golden["ids"]),
    "attention_mask": jnp.array(golden["mask"]),
    "token_type_ids": jnp.array(golden["segments"]),
  }


def test_every_layer(directory, golden):
  encoder = models.load(str(directory))
  output = encoder(**inputs(golden), output_hidden_states=True)
  assert output.pooler_output is None
  assert len(output.hidden_states) == len(golden["states"])
  for ours, theirs in zip(output.hidden_states, golden["states"], strict=True):
    np.testing.assert_allclose(ours[golden["mask"]], theirs[golden["mask"]], atol=2e-5)


def test_the_heads_of_pre_training(directory, golden, caplog):
  model = models.load(str(directory), head=models.Pretraining())
  assert caplog.text == ""
  output = model(**inputs(golden))
  mask = golden["mask"]
  np.testing.assert_allclose(
    output.prediction_logits[mask], golden["prediction_logits"][mask], rtol=1e-5, atol=1e-4
  )
  np.testing.assert_allclose(
    output.seq_relationship_logits, golden["relation_logits"], rtol=1e-5, atol=2e-5
  )


def test_the_gradients_of_a_classifier(directory, golden):
  """The classifier has the weights of the authors' classifier of pairs."""
  model = models.load(str(directory), head=models.Classifier(2))
  weights = load_file(directory / "model.safetensors")
  model.classifier.weight[...] = jnp.array(weights["cls.seq_relationship.weight"])
  model.classifier.bias[...] = jnp.array(weights["cls.seq_relationship.bias"])

  def loss(model):
    logits = model(**inputs(golden))
    return optax.softmax_cross_entropy_with_integer_labels(logits, jnp.array([1, 0, 1])).mean()

  gradient = nnx.to_pure_dict(nnx.grad(loss)(model))
  theirs = {
    _name(name.removeprefix("gradient.")).replace("cls.seq_relationship", "classifier"): value
    for name, value in golden.items()
    if name.startswith("gradient.")
  }
  ours = {
    ".".join(map(str, path)).removeprefix("base_model."): leaf
    for path, leaf in flatten_dict(gradient).items()
  }
  assert ours.keys() == theirs.keys()
  for name, leaf in ours.items():
    scale = np.abs(theirs[name]).max()
    np.testing.assert_allclose(leaf, theirs[name], atol=1e-4 * scale + 5e-6, err_msg=name)


def test_the_vocabulary_is_the_authors_one(directory):
  """PLUS counts `ARNDCQEGHILKMFPSTWYVX` from 1; the tokens for mask, start and end follow."""
  vocabulary = load_vocabulary(directory, 25)
  assert (vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id) == (0, 23, 24)
  ids = dict(zip(ALPHABET.symbols, vocabulary.symbol_ids(ALPHABET.symbols).tolist(), strict=True))
  assert (ids["A"], ids["R"], ids["K"], ids["C"], ids["X"]) == (1, 2, 12, 5, 21)
  assert vocabulary.special_ids == (0, 22, 23, 24)


@pytest.mark.parametrize("features", [6, 7])
def test_sinusoids_by_hand(features):
  waves = sinusoids(3, features)
  assert waves.shape == (3, features)
  np.testing.assert_allclose(
    waves[2, :4], [np.sin(2), np.cos(2), *(f(2 / 10000 ** (2 / features)) for f in (np.sin, np.cos))], rtol=1e-6
  )  # fmt: skip


def test_saving_and_loading_gives_the_same_tensors(directory, tmp_path):
  models.save(models.load(str(directory), head=models.Pretraining()), tmp_path / "again")
  first, second = (
    nnx.to_pure_dict(nnx.state(models.load(str(path), head=models.Pretraining())))
    for path in (directory, tmp_path / "again")
  )
  jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.mark.parametrize("init", ["pretrained", "re_emb", "scratch"])
def test_a_protein_task(init, directory, tmp_path):
  write_data(tmp_path)
  arguments = [
    *("main", "--config=protein_stability", f"--config.data_dir={tmp_path}"),
    *(f"--config.model.checkpoint={directory}", f"--config.model.init={init}"),
    *("--config.token_map.kind=identity", "--config.replicas=1", "--config.train.steps=2"),
    *("--config.train.batch_size=4", f"--workdir={tmp_path / 'run'}"),
  ]
  assert main(arguments) == 0


def test_the_command(directory, tmp_path):
  """The command converts models with twelve heads; other sizes are an error in one line."""

  def run(*arguments):
    return subprocess.run(
      [sys.executable, "-m", "discipline_jax.models.plus_tfm", *map(str, arguments)],
      capture_output=True,
      text=True,
      check=False,
    )

  ran = run(TESTDATA / "plus_tfm.pt", tmp_path / "out")
  assert ran.returncode == 1
  assert ran.stderr.splitlines()[-1].startswith("error: hidden_size 20, ")
  assert not (tmp_path / "out").exists()
  assert "usage: " in run("one").stderr


@pytest.mark.parametrize(
  ("content", "fact"),
  [
    (None, r"no file .*plus\.pt"),
    (b"", r"\(EOFError.*plus\.pt"),
    (pickle.dumps(print), r"builtins\.print\b.*plus\.pt"),
    ((TESTDATA / "bert_small_legacy.bin").read_bytes(), r"\b300 .*\b25\b.*plus\.pt"),
    ((TESTDATA / "tensors_zip.bin").read_bytes(), r"state dict .*plus\.pt"),
  ],
)
def test_another_file_is_an_error(content, fact, tmp_path):
  if content is not None:
    (tmp_path / "plus.pt").write_bytes(content)
  with pytest.raises(UserError, match=fact) as raised:
    convert(tmp_path / "plus.pt", tmp_path / "out")
  assert "\n" not in str(raised.value)
  assert not (tmp_path / "out").exists()


def test_x_may_be_the_unknown_token_of_a_protein_model():
  """AntiBERTy, for example, has no X in its vocabulary."""
  vocabulary = make_vocabulary("ACDEFGHIKLMNPQRSTVWY", 25)
  task = Task("proteins", ALPHABET, Value(), None, lambda: {"all": [Example("AXC", 0)]})
  features = featurise(task, vocabulary, 9)
  ids = features.symbol_ids[features.symbols[0]]
  assert [vocabulary.tokens[i] for i in ids] == ["[CLS]", "A", "[UNK]", "C", "[SEP]"]
  strict = dataclasses.replace(task, alphabet=dataclasses.replace(ALPHABET, unknown_symbol=None))
  with pytest.raises(UserError, match=r"\bX\b.* proteins"):
    featurise(strict, vocabulary, 9)


def test_an_own_table_of_proteins_has_the_rows_of_the_model(directory, tmp_path):
  """The model has a token for X, the unknown amino acid, so X keeps its own row."""
  (tmp_path / "a.csv").write_text("sequence,label\nACDX,0\nYW,1\n")
  features = featurise(read(tmp_path / "a.csv"), load_vocabulary(directory, 25), 9)
  names = [TOKENS[i] for i in features.symbol_ids]
  assert names == ["[PAD]", "[CLS]", "[SEP]", *"ACDWXY", "X"]
