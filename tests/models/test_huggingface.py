"""Tests of loading checkpoints in all formats, whole and broken."""

import collections
import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.models.torch_file import read_torch_file
from tests.models.parameters import QUERY, flat


def test_parameter_paths_are_hugging_faces_names(checkpoint):
  directory, tensors = checkpoint
  params = flat(models.load(str(directory)))
  assert params.keys() == tensors.keys()
  for name, value in params.items():
    np.testing.assert_array_equal(value, tensors[name])


@pytest.mark.parametrize("variant", ["prefix", "old_names", "buffers", "bfloat16_file", "shards"])
def test_variants_give_the_same_weights(checkpoint, variant):
  directory, tensors = checkpoint
  expected = flat(models.load(str(directory)))
  (directory / "model.safetensors").unlink()
  if variant == "shards":
    parts = [dict(sorted(tensors.items())[:20]), dict(sorted(tensors.items())[20:])]
    names = [f"model-{i}-of-2.safetensors" for i in (1, 2)]
    for part, name in zip(parts, names, strict=True):
      save_file(part, directory / name)
    index = {
      "metadata": {},
      "weight_map": {key: name for part, name in zip(parts, names, strict=True) for key in part},
    }
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
  else:
    changed = {
      "prefix": {f"bert.{name}": value for name, value in tensors.items()},
      "old_names": {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
          "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in tensors.items()
      },
      "buffers": {
        **tensors,
        "embeddings.position_ids": np.arange(70)[None],
        "cls.predictions.bias": np.zeros(300, np.float32),
      },
      "bfloat16_file": tensors,
    }[variant]
    if variant == "bfloat16_file":
      import ml_dtypes

      changed = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors.items()}
    save_file(changed, directory / "model.safetensors")
  for name, value in flat(models.load(str(directory))).items():
    np.testing.assert_allclose(
      value, expected[name], rtol=2**-8 if variant == "bfloat16_file" else 0
    )
    assert value.dtype == np.float32


def test_random_weights_are_named(checkpoint, caplog):
  directory, tensors = checkpoint
  save_file(
    {name: value for name, value in tensors.items() if not name.startswith("pooler")},
    directory / "model.safetensors",
  )
  models.load(str(directory), models.Classifier(2))
  for name in ("pooler.dense.weight", "pooler.dense.bias", "classifier.weight", "classifier.bias"):
    assert name in caplog.text


def test_a_head_of_the_right_size_is_loaded(checkpoint):
  directory, tensors = checkpoint
  head = {
    "classifier.weight": np.full((2, 36), 0.5, np.float32),
    "classifier.bias": np.ones(2, np.float32),
  }
  save_file(
    {**{f"bert.{name}": value for name, value in tensors.items()}, **head},
    directory / "model.safetensors",
  )
  model = models.load(str(directory), models.Classifier(2))
  np.testing.assert_array_equal(model.classifier.weight[...], head["classifier.weight"])


def test_a_head_of_another_size_becomes_random_and_is_named(checkpoint, caplog):
  directory, tensors = checkpoint
  head = {
    "classifier.weight": np.ones((5, 36), np.float32),
    "classifier.bias": np.ones(5, np.float32),
  }
  save_file({**tensors, **head}, directory / "model.safetensors")
  assert models.load(str(directory), models.Classifier(2)).classifier.weight.shape == (2, 36)
  assert "classifier.weight" in caplog.text


def test_only_berts_are_left_to_right():
  fields = {"is_decoder": True, "model_type": "roberta"}
  with pytest.raises(UserError, match="is_decoder = True, here"):
    models.ModelConfig.from_dict(fields, "here")
  assert models.ModelConfig.from_dict(fields | {"model_type": "bert"}, "here").is_decoder


class TestBad:
  """A bad checkpoint is an error in one line that names the file, and the tensor or the key."""

  @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
  @pytest.mark.parametrize("name", [QUERY, "embeddings.word_embeddings.weight"])
  def test_a_value_that_is_not_finite(self, checkpoint, name, value):
    directory, tensors = checkpoint
    tensors[name] = tensors[name].copy()
    tensors[name].flat[-1] = value
    save_file(tensors, directory / "model.safetensors")
    self.check(directory, f"{name} .* finite")

  def test_word_embeddings_of_zeros(self, checkpoint):
    directory, tensors = checkpoint
    name = "embeddings.word_embeddings.weight"
    save_file(tensors | {name: np.zeros_like(tensors[name])}, directory / "model.safetensors")
    self.check(directory, f"{name} are 0")

  @pytest.mark.parametrize("form", ["zip", "legacy"])
  def test_a_pickle_with_code(self, checkpoint, form):
    directory, _ = checkpoint
    (directory / "model.safetensors").unlink()
    content = pickle.dumps({"weight": print}, protocol=2)
    path = directory / "pytorch_model.bin"
    path.write_bytes(content)
    if form == "zip":
      with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    self.check(directory, r"__builtin__\.print\b.*pytorch_model\.bin")

  @pytest.mark.parametrize(
    ("changes", "fact"),
    [
      ({"tokenizer.json": "{}"}, r"\(.*checkpoint/tokenizer\.json;"),
      ({"tokenizer.json": ""}, r"\(.*checkpoint/tokenizer\.json;"),
      ({"vocab.txt": "[PAD]\n[UNK]\n"}, r"cls sep mask, .*checkpoint/vocab\.txt"),
      ({"vocab.txt": "\n".join(map(str, range(300)))}, r"\[PAD\] .*checkpoint/vocab\.txt"),
      ({}, r"\b300 .*config\.json"),
    ],
  )
  def test_a_tokenizer_that_does_not_match(self, checkpoint, changes, fact):
    directory, _ = checkpoint
    for name, content in changes.items():
      (directory / name).write_text(content)
    with pytest.raises(UserError, match=fact) as caught:
      load_vocabulary(directory, 300)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)

  @pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
      (QUERY, None, f"{QUERY} is missing"),
      (QUERY, np.zeros((36, 35), np.float32), rf"{QUERY} .*\[36, 35\].* \[36, 36\]"),
      (QUERY, np.zeros((36, 36), np.int32), f"{QUERY} .*int32"),
      (QUERY, np.zeros((36, 36), np.uint64), r"U64.*model\.safetensors"),
    ],
  )
  def test_tensor(self, checkpoint, name, value, fact):
    directory, tensors = checkpoint
    tensors.pop(name)
    save_file(
      tensors if value is None else {**tensors, name: value}, directory / "model.safetensors"
    )
    self.check(directory, fact)

  @pytest.mark.parametrize("size", [0, 4, 2000, -1])
  def test_truncated_safetensors(self, checkpoint, size):
    path = checkpoint[0] / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    self.check(checkpoint[0], r"\(.*\), .*model\.safetensors;")

  @pytest.mark.parametrize(
    ("field", "value", "fact"),
    [
      ("model_type", "gpt2", r"model_type 'gpt2', .*config\.json"),
      ("position_embedding_type", "relative_key", "position_embedding_type = 'relative_key'"),
      ("add_cross_attention", True, "add_cross_attention = True"),
      ("hidden_act", "tanhshrink", "hidden_act 'tanhshrink'"),
      ("hidden_size", 37, "hidden_size 37, .* num_attention_heads 4"),
      ("num_hidden_layers", "3", "num_hidden_layers = '3'"),
      ("hidden_dropout_prob", "0.1", "hidden_dropout_prob = '0.1'"),
      ("hidden_dropout_prob", 1.0, r"hidden_dropout_prob = 1\.0, .*\[0, 1\)"),
      ("layer_norm_eps", 0, "layer_norm_eps = 0"),
      ("num_hidden_layers", 4, "encoder.layer.3.attention.output.LayerNorm.bias is missing"),
    ],
  )
  def test_config(self, checkpoint, field, value, fact):
    path = checkpoint[0] / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    self.check(checkpoint[0], fact)

  @pytest.mark.parametrize("content", ["{", "[1]", b"\xff\xfe"])
  def test_config_is_not_a_json_object(self, checkpoint, content):
    (checkpoint[0] / "config.json").write_bytes(
      content if isinstance(content, bytes) else content.encode()
    )
    self.check(checkpoint[0], r"JSON.*config\.json;")

  def test_files_are_missing(self, checkpoint):
    (checkpoint[0] / "model.safetensors").unlink()
    self.check(checkpoint[0], r"no model\.safetensors or pytorch_model\.bin ")
    (checkpoint[0] / "config.json").unlink()
    self.check(checkpoint[0], r"no config\.json ")

  def test_a_shard_is_missing_or_outside(self, checkpoint):
    directory, _ = checkpoint
    (directory / "model.safetensors").unlink()
    for shard in ("model-1.safetensors", "../checkpoint/config.json"):
      (directory / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {QUERY: shard}})
      )
      self.check(directory, f"the shard {shard} is missing")

  def test_neither_directory_nor_hub(self):
    with pytest.raises(UserError, match=r"directory \./nowhere;"):
      models.load("./nowhere")
    with pytest.raises(UserError, match=r"'nobody/nothing' .*huggingface\.co"):
      models.load("nobody/nothing")

  def check(self, directory, fact):
    with pytest.raises(UserError, match=fact) as caught:
      models.load(str(directory))
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)


class TestTorchFile:
  """Tests with `testdata/tensors_{zip,legacy}.bin`, which PyTorch saved; see testdata/make_golden.py."""

  @pytest.mark.parametrize("form", ["zip", "legacy"])
  def test_reads_what_pytorch_saved(self, testdata, form):
    tensors = read_torch_file(testdata / f"tensors_{form}.bin")
    np.testing.assert_array_equal(
      tensors["float"], np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    )
    np.testing.assert_array_equal(tensors["transposed"], tensors["float"].T)
    np.testing.assert_array_equal(tensors["tail"], tensors["float"][1:])
    np.testing.assert_array_equal(tensors["half"], np.array([0.5, -2], np.float16))
    np.testing.assert_array_equal(tensors["bfloat16"].astype(np.float32), [1.5, -3])
    np.testing.assert_array_equal(tensors["long"], [[1, -(2**40)]])
    np.testing.assert_array_equal(tensors["scalar"], np.float64(7))
    assert tensors["empty"].shape == (0, 3)

  def test_reads_a_real_legacy_file(self, shared):
    tensors = read_torch_file(shared / "models" / "albert-smiles" / "pytorch_model.bin")
    assert tensors["albert.embeddings.word_embeddings.weight"].shape == (591, 128)
    assert all(np.isfinite(value).all() for value in tensors.values())

  def test_a_bin_checkpoint_loads(self, testdata, checkpoint):
    directory, _ = checkpoint
    expected = flat(models.load(str(directory)))
    (directory / "model.safetensors").unlink()
    shutil.copy(testdata / "bert_small_legacy.bin", directory / "pytorch_model.bin")
    for name, value in flat(models.load(str(directory))).items():
      np.testing.assert_array_equal(value, expected[name])

  @pytest.mark.parametrize("form", ["zip", "legacy"])
  def test_a_call_in_the_pickle_is_refused_and_not_run(self, tmp_path, form):
    marker = tmp_path / "ran"

    class Attack:
      def __reduce__(self):
        return (open, (str(marker), "w"))

    content = pickle.dumps(collections.OrderedDict(weight=Attack()), protocol=2)
    path = tmp_path / "pytorch_model.bin"
    if form == "zip":
      with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    else:
      path.write_bytes(content)
    with pytest.raises(UserError, match=r"\b(io|_io|builtins)\.open\b.*pytorch_model\.bin"):
      read_torch_file(path)
    assert not marker.exists()

  @pytest.mark.parametrize("size", [0, 3, 4])
  def test_a_tensor_beyond_its_storage_is_refused(self, testdata, tmp_path, size):
    source, path = testdata / "tensors_zip.bin", tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(path, "w") as spoilt:
      for name in archive.namelist():
        content = archive.read(name)
        spoilt.writestr(name, content[:size] if "/data/" in name else content)
    with pytest.raises(UserError, match=r"\(ValueError: .*pytorch_model\.bin"):
      read_torch_file(path)

  @pytest.mark.parametrize("content", [b"", b"\x80\x02}q\x00.", b"PK\x03\x04", b"garbage" * 9])
  def test_garbage(self, tmp_path, content):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"\(\w+: .*\), .*pytorch_model\.bin;"):
      read_torch_file(path)


def test_a_list_of_capital_letters_is_a_vocabulary_of_symbols(tmp_path):
  """transformers takes the list for BERT's vocabulary, whose tokenizer lowercases the text."""
  tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A", "C", "D"]
  (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
  (tmp_path / "config.json").write_text('{"model_type": "bert", "vocab_size": 8}')
  vocabulary = load_vocabulary(tmp_path, 8)
  np.testing.assert_array_equal(vocabulary.symbol_ids(["D", "A", "X"]), [7, 5, 1])
