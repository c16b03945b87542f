"""Tests which input files a run has, and when a file counts as changed, new or gone."""

import hashlib
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.runs import inputs
from tests.testdata.small_files import write_data, write_model


def names(config, **options) -> dict[str, list[str]]:
  """Returns the names of the input files by field of the config, without fields that have none."""
  return {field: list(own) for field, own in inputs.find(config, {}, **options).items() if own}


@pytest.fixture
def custom(tmp_path):
  """Returns a config of fine-tuning on a table for training and a table for validation."""
  for part in ("train", "val"):
    (tmp_path / f"{part}.csv").write_text(f"sequence,label\n{part},1\n")
  config = defaults.finetune()
  config.task.update(name="custom", path=str(tmp_path / "{split}.csv"))
  return config


def differences(config, recorded) -> list[tuple[str, str, str]]:
  """Returns kind, field and name of each file that differs from its record."""
  found = inputs.compare(inputs.find(config, {}), recorded)
  return [(one.kind, one.field, one.name) for one in found]


class TestWhichFiles:
  def test_the_parts_of_a_table(self, custom):
    assert names(custom) == {"task.path": ["train", "validation"]}

  def test_files_of_a_published_task_are_named_from_the_data_directory(self, tmp_path, monkeypatch):
    write_data(tmp_path)
    config = defaults.finetune()
    config.task.name = "glue_cola"
    monkeypatch.setenv("DISCIPLINE_DATA", str(tmp_path))
    expected = {"data_dir": ["glue_data/CoLA/dev.tsv", "glue_data/CoLA/train.tsv"]}
    assert names(config) == expected
    config.task.name = "dna_planted"  # generated, so it reads no file
    assert names(config) == {}

  def test_a_broken_table_of_music_names_no_recordings(self, tmp_path):
    write_data(tmp_path)
    config = defaults.finetune()
    config.task.name, config.data_dir = "music_composer", str(tmp_path)
    found = names(config)["data_dir"]
    assert "music/maestro-v1.0.0.csv" in found
    assert sum(name.endswith(".midi") for name in found) == len(found) - 1 > 0
    (tmp_path / "music" / "maestro-v1.0.0.csv").write_text("broken\n")
    assert names(config) == {"data_dir": ["music/maestro-v1.0.0.csv"]}

  def test_a_checkpoint(self, custom, tmp_path):
    folder = tmp_path / "model"
    write_model(folder)
    for name in ("notes.md", "pytorch_model.bin", "a.safetensors", "b.safetensors"):
      (folder / name).touch()
    custom.model.checkpoint = str(folder)
    read = ["config.json", "tokenizer.json"]
    assert names(custom)["model.checkpoint"] == sorted([*read, "pytorch_model.bin"])
    index = {"weight_map": {"w": "a.safetensors", "v": "b.safetensors", "u": "gone.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert names(custom)["model.checkpoint"] == sorted(
      [*read, "a.safetensors", "b.safetensors", "model.safetensors.index.json"]
    )
    (folder / "model.safetensors.index.json").write_text("broken")
    assert "model.safetensors.index.json" in names(custom)["model.checkpoint"]
    assert names(custom, weights=False)["model.checkpoint"] == read
    custom.model.init = "scratch"
    assert names(custom)["model.checkpoint"] == read

  def test_a_step_of_a_pre_training(self, custom, tmp_path):
    for step in (3, 20):
      write_model(tmp_path / "run" / "steps" / str(step))
    for checkpoint, step in (("run@3", "3"), ("run", "20")):
      custom.model.checkpoint = str(tmp_path / checkpoint)
      found = inputs.find(custom, {})["model.checkpoint"]
      assert {path.parent.name for path in found.values()} == {step}

  @pytest.mark.parametrize(
    ("path", "expected"), [("map.npy", ["map.npy"]), ("map{seed}.npy", ["4", "5"])]
  )
  def test_token_maps(self, path, expected, custom, tmp_path):
    custom.seed, custom.replicas = 4, 2
    custom.token_map.update(kind="table", path=str(tmp_path / path))
    for name in ("map", "map4", "map5", "map6"):
      np.save(tmp_path / f"{name}.npy", np.arange(3))
    assert names(custom)["token_map.path"] == expected
    custom.token_map.kind = "random"
    assert "token_map.path" not in names(custom)

  def test_a_corpus_and_its_vocabulary(self, tmp_path):
    write_model(tmp_path / "model")
    for name in ("b/1.txt", "a.txt", ".hidden"):
      path = tmp_path / "texts" / name
      path.parent.mkdir(parents=True, exist_ok=True)
      path.write_text("a text")
    config = defaults.pretrain()
    config.corpus.update(
      name="text", path=str(tmp_path / "texts"), vocabulary=str(tmp_path / "model")
    )
    assert names(config) == {
      "corpus.path": ["a.txt", "b/1.txt"],
      "corpus.vocabulary": ["config.json", "tokenizer.json"],
    }
    config.corpus.path = str(tmp_path / "texts" / "a.txt")
    assert names(config)["corpus.path"] == ["a.txt"]

  def test_a_prepared_corpus_of_tfds(self, tmp_path):
    config = defaults.pretrain()
    config.corpus.update(name="tfds", path="wikipedia/20230601.en")
    assert names(config) == {}
    for name in ("corpus.json", "train.arrayrecord"):
      (tmp_path / name).touch()
    config.corpus.path = str(tmp_path)
    assert names(config)["corpus.path"] == ["corpus.json", "train.arrayrecord"]
    recorded = inputs.record(inputs.find(config, {}))
    (tmp_path / "train.arrayrecord").write_bytes(b"other")
    assert differences(config, recorded) == [("changed", "corpus.path", "train.arrayrecord")]
    assert differences(config, {}) == []  # the record of an older version, which has no such files

  def test_files_that_are_gone_are_left_out(self, custom, tmp_path):
    for path in tmp_path.iterdir():
      path.unlink()
    custom.model.checkpoint = str(tmp_path / "model")
    assert names(custom) == {}
    config = defaults.pretrain()
    config.corpus.path = config.corpus.vocabulary = str(tmp_path / "gone")
    assert names(config) == {}


class TestDifferences:
  def test_the_same_files_are_not_read_again(self, custom, monkeypatch):
    recorded = inputs.record(inputs.find(custom, {}))
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    assert differences(custom, recorded) == []

  def test_touched_and_copied_files_are_the_same(self, custom, tmp_path):
    recorded = inputs.from_json(
      json.loads(json.dumps(inputs.to_json(inputs.record(inputs.find(custom, {})))))
    )
    os.utime(tmp_path / "train.csv", (1, 1))
    assert differences(custom, recorded) == []
    shutil.copytree(tmp_path, tmp_path / "copy")
    custom.task.path = str(tmp_path / "copy" / "{split}.csv")
    assert differences(custom, recorded) == []

  def test_a_change_is_found_even_with_the_same_size_and_time(self, custom, tmp_path):
    path = tmp_path / "train.csv"
    recorded = inputs.record(inputs.find(custom, {}))
    status = path.stat()
    path.write_text(path.read_text().replace(",1", ",2"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert differences(custom, recorded) == [("changed", "task.path", "train")]

  def test_new_and_lost_files(self, custom, tmp_path):
    recorded = inputs.record(inputs.find(custom, {}))
    (tmp_path / "test.csv").write_text("sequence,label\n")
    (tmp_path / "val.csv").unlink()
    assert differences(custom, recorded) == [
      ("new", "task.path", "test"),
      ("gone", "task.path", "validation"),
    ]

  def test_a_field_without_files(self, custom):
    """All recorded files of the field are gone; a field that was not recorded has no differences."""
    recorded = inputs.record(inputs.find(custom, {}))
    assert [one.kind for one in inputs.compare({"task.path": {}}, recorded)] == ["gone"] * 2
    assert inputs.compare({"model.checkpoint": {}}, recorded) == []

  def test_a_file_that_cannot_be_recorded(self, tmp_path):
    with pytest.raises(UserError, match=str(tmp_path / "none")):
      inputs.record({"task.path": {"all": tmp_path / "none"}})


def test_the_digest_of_one_file_is_its_sha_256(tmp_path):
  (tmp_path / "a").write_bytes(b"abc")
  recorded = inputs.record({"task.path": {"all": tmp_path / "a"}})
  # the example "abc" of the standard, FIPS 180-2
  assert inputs.summary(recorded) == {
    "task.path": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
  }


def test_the_digest_of_several_files_depends_on_each_content_and_name(tmp_path):
  def digest(**contents: bytes) -> str:
    files: dict[str, pathlib.Path] = {}
    for name, content in contents.items():
      files[name] = tmp_path / name
      files[name].write_bytes(content)
    return inputs.summary(inputs.record({"data_dir": files}))["data_dir"]

  same = digest(a=b"1", b=b"2")
  assert digest(b=b"2", a=b"1") == same
  assert len({same, digest(a=b"1", b=b"3"), digest(a=b"1", c=b"2"), digest(a=b"2", b=b"1")}) == 4


def test_the_record_knows_the_directory_of_a_model_from_the_hub(tmp_path):
  folder = tmp_path / "models--a--b" / "snapshots" / ("0123456789" * 4)
  write_model(folder)
  config = defaults.finetune()
  config.task.name, config.model.checkpoint = "dna_planted", "a/b"
  assert names(config) == {}
  recorded = inputs.record(inputs.find(config, {"model.checkpoint": folder}))
  assert inputs.hub_directories(recorded) == {"model.checkpoint": folder}
  assert inputs.compare(inputs.find(config, inputs.hub_directories(recorded)), recorded) == []
  assert inputs.hub_directories({"model.checkpoint": {}}) == {}
