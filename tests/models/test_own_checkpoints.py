"""Tests of checkpoints as users have them: wrapped networks, padded tables, other special tokens, other frameworks."""

import json
import logging
import pathlib
import shutil

import numpy as np
import pytest
from flax import serialization
from flax.traverse_util import unflatten_dict
from safetensors.numpy import save_file
from tokenizers import Tokenizer, processors
from tokenizers import models as tokenizer_models

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.models.config import read_config
from discipline_jax.models.locate import resolve
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.models.torch_file import _Storage, _Tensor, _tensors, read_torch_file
from discipline_jax.models.weights import open_weights
from discipline_jax.tasks.token_maps import KINDS, make_map
from tests.models.parameters import QUERY, flat

BIN = pathlib.Path("some.bin")
NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def edit(directory, name="config.json", **fields):
  path = directory / name
  content = json.loads(path.read_text()) if path.exists() else {}
  content = {key: value for key, value in (content | fields).items() if value is not None}
  path.write_text(json.dumps(content))


class TestNames:
  @pytest.mark.parametrize(
    "wrapped",
    [
      "module.{}",
      "_orig_mod.{}",
      "model.{}",
      "model.bert.{}",
      "module._orig_mod.bert.{}",
      "_orig_mod.module.model.bert.{}",
      "backbone.encoder.{}",
      "_fsdp_wrapped_module.bert._fsdp_wrapped_module.{}",
    ],
  )
  def test_wrappers_are_dropped(self, checkpoint, wrapped):
    directory, tensors = checkpoint
    expected = np.asarray(models.load(str(directory)).encoder.layer[0].attention.self.query.weight)
    changed = {wrapped.format(name): value for name, value in tensors.items()}
    save_file({**changed, "loss.weight": np.ones(2, np.float32)}, directory / "model.safetensors")
    model = models.load(str(directory))
    np.testing.assert_array_equal(model.encoder.layer[0].attention.self.query.weight, expected)

  @pytest.mark.parametrize(
    "further", ["embeddings_project.weight", "final_layer_norm.weight", "prefix_encoder.weight"]
  )
  @pytest.mark.parametrize("prefix", ["", "bert."])
  def test_a_further_part_of_the_encoder_is_an_error(self, further, prefix, checkpoint):
    directory, tensors = checkpoint
    changed = {prefix + name: value for name, value in tensors.items()}
    save_file(
      {**changed, prefix + further: np.ones(2, np.float32)}, directory / "model.safetensors"
    )
    with pytest.raises(UserError, match=further):
      models.load(str(directory))

  @pytest.mark.parametrize("head", ["cls.predictions.transform.LayerNorm.weight", "final.weight"])
  def test_heads_are_no_part_of_the_encoder(self, head, checkpoint):
    directory, tensors = checkpoint
    changed = {"bert." + name: value for name, value in tensors.items()}
    save_file({**changed, head: np.ones(2, np.float32)}, directory / "model.safetensors")
    models.load(str(directory))

  def test_two_encoders_are_ambiguous(self, checkpoint):
    directory, tensors = checkpoint
    changed = {f"{one}.{name}": tensors[name] for one in ("query", "document") for name in tensors}
    save_file(changed, directory / "model.safetensors")
    with pytest.raises(UserError, match=r"document\. and query\., .*model\.safetensors"):
      models.load(str(directory))

  def test_two_tensors_of_one_name(self, checkpoint):
    directory, tensors = checkpoint
    save_file(tensors | {f"module.{QUERY}": tensors[QUERY]}, directory / "model.safetensors")
    with pytest.raises(
      UserError, match=rf"{QUERY} and module\.{QUERY}|module\.{QUERY} and {QUERY}"
    ):
      models.load(str(directory))

  @pytest.mark.parametrize(
    "name",
    [
      "encoder.layer.1.attention.self.query.lora_A.weight",
      "encoder.layer.0.mlp.gate.weight",
      "embeddings.rotary.weight",
    ],
  )
  def test_further_weights_of_the_encoder_are_refused(self, checkpoint, name):
    directory, tensors = checkpoint
    save_file(tensors | {f"bert.{name}": np.ones(3, np.float32)}, directory / "model.safetensors")
    with pytest.raises(UserError, match=rf"it has {name} \(1 .*{directory}"):
      models.load(str(directory))

  def test_layers_after_the_last_are_said(self, checkpoint, caplog):
    directory, _ = checkpoint
    edit(directory, num_hidden_layers=1)
    models.load(str(directory))
    assert "num_hidden_layers = 1" in caplog.text

  def test_code_of_its_own(self, checkpoint, caplog):
    directory, tensors = checkpoint
    edit(directory, auto_map={"AutoModel": "layers.Model"})
    models.load(str(directory))  # all its weights are those of a BERT
    assert "auto_map" in caplog.text
    tensors.pop("embeddings.position_embeddings.weight")
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(UserError, match=r"auto_map .*embeddings\.position_embeddings\.weight"):
      models.load(str(directory))


class TestFiles:
  @pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
  def test_a_trainers_dict(self, key):
    tensor = _Tensor(_Storage(np.dtype("<f4"), 1), 0, (1,), (1,))
    assert _tensors({"epoch": 3, key: {"a": tensor, "step": 1}}, BIN) == {"a": tensor}
    assert _tensors({"a": tensor, "best": 0.5}, BIN) == {"a": tensor}
    with pytest.raises(UserError, match=r"'epoch', some\.bin"):
      _tensors({"epoch": 3, key: {"step": 1}}, BIN)

  def test_the_trainers_dict_of_pytorch(self, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"epoch": 3, "lr": 0.1, "state_dict": {"a": torch.arange(3.0)}}, path)
    np.testing.assert_array_equal(read_torch_file(path)["a"], [0, 1, 2])

  def test_flax(self, checkpoint):
    """Writes a checkpoint of Flax by hand: its kernels are transposed, and the last parts of names differ."""
    directory, tensors = checkpoint
    expected = flat(models.load(str(directory)))
    (directory / "model.safetensors").unlink()
    tree = {}
    for name, value in tensors.items():
      *parts, leaf = name.split(".")
      if leaf == "weight" and parts[-1] == "LayerNorm":
        leaf = "scale"
      elif leaf == "weight" and parts[-1].endswith("_embeddings"):
        leaf = "embedding"
      elif leaf == "weight":
        leaf, value = "kernel", value.T
      tree["bert", *parts, leaf] = value
    path = directory / "flax_model.msgpack"
    path.write_bytes(serialization.msgpack_serialize(unflatten_dict(tree)))
    for name, value in flat(models.load(str(directory))).items():
      np.testing.assert_array_equal(value, expected[name])
    assert open_weights(directory).keys() == {f"bert.{name}" for name in tensors}
    for content in (b"\x80", b"{", b""):
      path.write_bytes(content)
      with pytest.raises(UserError, match=r"flax_model\.msgpack"):
        models.load(str(directory))

  def test_tensorflow(self, checkpoint):
    """Writes the weights under the names that transformers 4 has in its h5 files."""
    h5py = pytest.importorskip("h5py")
    directory, tensors = checkpoint
    expected = flat(models.load(str(directory)))
    (directory / "model.safetensors").unlink()
    with h5py.File(directory / "tf_model.h5", "w") as file:
      for name, value in tensors.items():
        *parts, leaf = name.split(".")
        if parts[-1] == "LayerNorm":
          leaf = {"weight": "gamma", "bias": "beta"}[leaf]
        elif parts[-1].endswith("_embeddings"):
          leaf = "weight" if parts[-1] == "word_embeddings" else "embeddings"
        elif leaf == "weight":
          leaf, value = "kernel", value.T
        place = "/".join(parts).replace("layer/", "layer_._")
        file[f"bert/tf_bert_model/bert/{place}/{leaf}:0"] = value
    for name, value in flat(models.load(str(directory))).items():
      np.testing.assert_array_equal(value, expected[name])

  @pytest.mark.parametrize(
    ("name", "fact"),
    [
      ("best.ckpt", r"best\.ckpt, .*rename it to pytorch_model\.bin"),
      ("weights.safetensors", r"weights\.safetensors, .*rename it to model\.safetensors"),
      ("bert_model.ckpt.index", r"bert_model\.ckpt\.index"),
      ("notes.txt", r"no model\.safetensors or pytorch_model\.bin in "),
    ],
  )
  def test_other_files_are_named(self, checkpoint, name, fact):
    directory, _ = checkpoint
    (directory / "model.safetensors").unlink()
    (directory / name).touch()
    with pytest.raises(UserError, match=fact):
      models.load(str(directory))

  def test_a_pointer_of_git_lfs(self, checkpoint):
    directory, _ = checkpoint
    (directory / "model.safetensors").write_text(
      "version https://git-lfs.github.com/spec/v1\noid 1"
    )
    with pytest.raises(UserError, match=r"LFS.*model\.safetensors; .*git lfs pull"):
      models.load(str(directory))

  def test_an_adapter_alone(self, tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=rf"PEFT.*{tmp_path}"):
      read_config(tmp_path)


class TestFamily:
  @pytest.mark.parametrize(
    ("fields", "prefix", "files", "family"),
    [
      ({"architectures": ["RobertaForMaskedLM"]}, "", (), "roberta"),
      ({"architectures": ["BertModel"]}, "", (), "bert"),
      ({"architectures": ["BertGenerationEncoder"]}, "roberta.", (), "roberta"),
      ({}, "bert.", ("vocab.json", "merges.txt"), "bert"),
      ({}, "module.bert.", (), "bert"),
      ({}, "", ("vocab.txt",), "bert"),
      ({}, "", ("vocab.json", "merges.txt"), "roberta"),
      ({"inner_group_num": 1}, "", (), "albert"),
      ({"architectures": ["DistilBertForMaskedLM"]}, "", (), "distilbert"),
      ({}, "electra.", ("vocab.txt",), "electra"),
    ],
  )
  def test_without_model_type(self, checkpoint, fields, prefix, files, family):
    directory, tensors = checkpoint
    edit(directory, **({"model_type": None, "architectures": None} | fields))
    for name in files:
      (directory / name).touch()
    save_file(
      {prefix + name: value for name, value in tensors.items()}, directory / "model.safetensors"
    )
    assert read_config(directory).model_type == family

  def test_nothing_shows_it(self, checkpoint):
    directory, _ = checkpoint
    edit(directory, model_type=None, architectures=["AntiBERTy"])
    with pytest.raises(UserError, match=r'model_type, .*config\.json; .*"model_type"'):
      read_config(directory)
    edit(directory, model_type="bert")  # the remedy
    models.load(str(directory))


@pytest.mark.parametrize(
  ("name", "field"), [("bert_relu", "num_hidden_layers"), ("distilbert_gelu", "n_layers")]
)
def test_layers_behind_the_last_one_of_the_config(name, field, testdata, tmp_path, caplog):
  """transformers leaves them out, too."""
  directory = tmp_path / name
  shutil.copytree(testdata / "families" / name, directory)
  edit(directory, **{field: 2})
  assert len(models.load(str(directory)).encoder.layer) == 2
  assert f"{directory} has 1 layers more than its config.json says" in caplog.text


def write_tokens(directory, tokens, **fields):
  directory.mkdir(exist_ok=True)
  (directory / "vocab.txt").write_text("\n".join(tokens) + "\n")
  if fields:
    (directory / "tokenizer_config.json").write_text(json.dumps(fields))
  (directory / "config.json").write_text(
    json.dumps({"model_type": "bert", "vocab_size": len(tokens)})
  )
  return directory


class TestVocabulary:
  @pytest.fixture
  def tokens(self):
    return [*NAMES, *(f"w{i}" for i in range(1200))]

  def test_rows_without_a_token_change_nothing(self, tmp_path, tokens, caplog):
    directory = write_tokens(tmp_path / "a", tokens, do_lower_case=False)
    plain, padded = (load_vocabulary(directory, len(tokens) + more) for more in (0, 6))
    assert padded.tokens == plain.tokens == tuple(tokens)
    np.testing.assert_array_equal(padded.ordinary_ids, plain.ordinary_ids)
    assert padded.fingerprint() == plain.fingerprint()
    for kind in {*KINDS} - {"table", "unused"}:
      ours, theirs = (
        make_map(
          kind,
          one,
          np.array([7, 9], np.int32),
          shift=3,
          seed=0,
          path=None,
          keep_special=False,
        )
        for one in (plain, padded)
      )
      np.testing.assert_array_equal(ours, theirs)
      assert ours.max() < len(tokens)
    assert not caplog.records

  def test_many_rows_without_a_token_are_said(self, tmp_path, tokens, caplog):
    directory = write_tokens(tmp_path / "a", tokens, do_lower_case=False)
    with caplog.at_level(logging.WARNING):
      load_vocabulary(directory, len(tokens) + 200)
    assert {"200", str(len(tokens))} <= set(caplog.text.split())

  def test_more_tokens_than_rows(self, tmp_path, tokens):
    directory = write_tokens(tmp_path / "a", tokens, do_lower_case=False)
    with pytest.raises(
      UserError, match=rf"{len(tokens)} tokens.* {len(tokens) - 1} rows.*{directory}"
    ):
      load_vocabulary(directory, len(tokens) - 1)

  def test_an_id_without_a_token_is_unused(self, tmp_path):
    vocabulary = {name: i for i, name in enumerate(NAMES)} | {"a": 6, "b": 8}
    Tokenizer(tokenizer_models.WordLevel(vocabulary, unk_token="[UNK]")).save(
      str(tmp_path / "tokenizer.json")
    )
    loaded = load_vocabulary(tmp_path, 10)
    assert loaded.unused_ids.tolist() == [5, 7]
    assert loaded.ordinary_ids.tolist() == [6, 8]
    assert [loaded.tokens[i] for i in (6, 8)] == ["a", "b"]

  @pytest.mark.parametrize("named", ["files", "map", "nowhere"])
  def test_special_tokens_of_other_names(self, tmp_path, named):
    tokens = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGV", "<null_1>", "<mask>"]
    roles = {"cls": "<cls>", "pad": "<pad>", "sep": "<eos>", "unk": "<unk>", "mask": "<mask>"}
    fields = {f"{role}_token": token for role, token in roles.items()}
    if named == "map":
      fields = {name: {"content": token} for name, token in fields.items()}
    directory = write_tokens(tmp_path / "a", tokens)
    if named != "nowhere":
      edit(directory, "special_tokens_map.json", **fields)
    vocabulary = load_vocabulary(directory, len(tokens))
    ids = {role: getattr(vocabulary, f"{role}_id") for role in roles}
    assert ids == {role: tokens.index(token) for role, token in roles.items()}
    assert vocabulary.symbol_ids("LAGV").tolist() == [4, 5, 6, 7]

  def test_special_tokens_of_the_tokenizers_steps(self, tmp_path):
    names = ["PAD", "what", "begin", "stop", "hidden", "a"]
    tokenizer = Tokenizer(
      tokenizer_models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="what")
    )
    tokenizer.post_processor = processors.TemplateProcessing(
      single="begin $A stop", special_tokens=[("begin", 2), ("stop", 3)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match=r"roles pad mask, .*\"pad_token\", \"mask_token\""):
      load_vocabulary(tmp_path)
    edit(tmp_path, "tokenizer_config.json", pad_token="PAD", mask_token="hidden")  # the remedy
    loaded = load_vocabulary(tmp_path)
    assert (loaded.pad_id, loaded.unk_id, loaded.cls_id, loaded.sep_id, loaded.mask_id) == (
      0,
      1,
      2,
      3,
      4,
    )

  def test_a_padding_token_of_two_roles(self, tmp_path):
    directory = write_tokens(tmp_path / "a", [*NAMES, "x"], pad_token="[SEP]", do_lower_case=False)
    with pytest.raises(UserError, match=r"\[SEP\] .*pad_token .*sep_token"):
      load_vocabulary(directory, 6)

  def test_sentencepiece_is_named_if_it_is_not_installed(self, tmp_path, monkeypatch):
    monkeypatch.setattr("discipline_jax.models.tokenizer._convert_tokenizer", lambda *_: None)
    monkeypatch.setattr("discipline_jax.models.tokenizer._has_sentencepiece", lambda: False)
    (tmp_path / "spiece.model").touch()
    with pytest.raises(UserError, match=rf"{tmp_path}; pip install sentencepiece"):
      load_vocabulary(tmp_path, 58)


class TestRevision:
  """`tests/models/test_locate.py` has the rest of `resolve`."""

  @pytest.fixture
  def asked(self, monkeypatch, tmp_path):
    calls = []

    def snapshot_download(repo_id, *, revision=None, allow_patterns):
      calls.append((repo_id, revision))
      return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    (tmp_path / "model.safetensors").touch()
    return calls

  COMMIT = "a265f77" + "0" * 33

  @pytest.mark.parametrize(
    ("checkpoint", "given", "revision"),
    [
      ("google-bert/bert-base-uncased@a265f77", None, "a265f77"),
      ("bert-base-uncased@v1", None, "v1"),
      ("a/b@refs/pr/3", None, "refs/pr/3"),
      ("a/b@v1", "v1", "v1"),
      ("a/b@a265f77", COMMIT, COMMIT),
      (f"a/b@{COMMIT}", "a265f77", COMMIT),
      ("a/b", "v1", "v1"),
    ],
  )
  def test_of_the_name(self, asked, checkpoint, given, revision):
    resolve(checkpoint, revision=given)
    assert asked == [(checkpoint.partition("@")[0], revision)]

  @pytest.mark.parametrize(("own", "given"), [("v1", "v2"), ("v1", COMMIT), ("a265f78", COMMIT)])
  def test_two_revisions(self, asked, own, given):
    with pytest.raises(UserError, match=rf"a/b@{own}' .*'{given}'"):
      resolve(f"a/b@{own}", revision=given)
    assert asked == []

  def test_a_directory_has_none(self, asked, tmp_path):
    with pytest.raises(UserError, match=rf"{tmp_path} is a directory, .*; give {tmp_path} alone"):
      resolve(f"{tmp_path}@v1")
    assert asked == []


class TestFields:
  @pytest.mark.parametrize("name", ["embedding_size", "num_hidden_groups", "inner_group_num"])
  def test_fields_of_albert_in_another_family(self, name, checkpoint):
    """transformers does not look at them, and no BERT of this package can have them."""
    directory, _ = checkpoint
    edit(directory, **{name: 2})
    models.load(str(directory))
    with pytest.raises(UserError, match=f"{name} = 2, in a flag, is for .*albert"):
      models.ModelConfig.from_dict({"model_type": "bert", name: 2}, "in a flag")

  @pytest.mark.parametrize(
    ("name", "value"),
    [("pruned_heads", {"0": [1]}), ("quantization_config", {"load_in_8bit": True})],
  )
  def test_networks_that_are_cut_or_quantised(self, name, value, checkpoint):
    directory, _ = checkpoint
    edit(directory, **{name: value})
    with pytest.raises(UserError, match=name):
      models.load(str(directory))

  def test_a_byte_order_mark_before_a_vocabulary(self, tmp_path):
    (tmp_path / "vocab.txt").write_text("\ufeff" + "\n".join([*NAMES, *"ACGT"]) + "\n")
    vocabulary = load_vocabulary(tmp_path, 9)
    assert (vocabulary.pad_id, vocabulary.tokens[5]) == (0, "A")
