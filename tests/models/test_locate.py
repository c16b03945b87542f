"""Tests of the ways to name a checkpoint; the hub is replaced by a function that writes its cache."""

import fnmatch
import logging
import shutil

import huggingface_hub
import numpy as np
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.models.locate import hub_commit, kept_steps, resolve

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG_AND_TOKENIZER = {"config.json", "vocab.txt"}


class Hub:
  """Stands in for `huggingface_hub.snapshot_download`.

  Attributes:
    files: names of the files that the model has on the hub.
    revisions: the revision of each call.
  """

  def __init__(self, cache):
    self.cache = cache
    self.files = {
      *CONFIG_AND_TOKENIZER,
      "model.safetensors",
      "pytorch_model.bin",
      "flax_model.msgpack",
    }
    self.revisions = []

  def snapshot_download(self, repo_id, *, revision=None, allow_patterns):
    self.revisions.append(revision)
    if revision not in (None, "v1", COMMIT):
      raise huggingface_hub.errors.RevisionNotFoundError(
        f"404 Client Error.\n\nRevision Not Found: {revision}", response=_Response()
      )
    folder = self.cache / f"models--{repo_id.replace('/', '--')}" / "snapshots" / COMMIT
    folder.mkdir(parents=True, exist_ok=True)
    for name in self.files:
      if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
        (folder / name).touch()
    return str(folder)


class _Response:
  headers: dict = {}  # noqa: RUF012
  request = None


@pytest.fixture
def hub(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  hub = Hub(tmp_path / "cache")
  monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
  return hub


def downloaded(directory) -> set[str]:
  return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize("revision", [None, "v1", COMMIT])
def test_the_hub_is_asked_for_the_revision(hub, revision):
  directory = resolve("someone/model", revision=revision)
  assert directory == hub.cache / "models--someone--model" / "snapshots" / COMMIT
  assert downloaded(directory) == CONFIG_AND_TOKENIZER | {"model.safetensors"}
  assert hub.revisions == [revision]


def test_no_weights_are_downloaded_if_none_are_needed(hub):
  assert downloaded(resolve("model", revision="v1", weights=False)) == CONFIG_AND_TOKENIZER
  assert hub.revisions == ["v1"]


def test_a_model_without_safetensors_is_downloaded_as_bin_from_the_same_revision(hub):
  hub.files.remove("model.safetensors")
  assert downloaded(resolve("model", revision="v1")) == CONFIG_AND_TOKENIZER | {"pytorch_model.bin"}
  assert hub.revisions == ["v1", "v1"]


def test_an_unknown_revision_is_named(hub):
  with pytest.raises(UserError, match=r"'someone/model' .*revision nowhere.*404") as caught:
    resolve("someone/model", revision="nowhere")
  assert "\n" not in str(caught.value)


def workdir(tmp_path, steps, finished=True):
  folder = tmp_path / "run"
  for step in steps:
    (folder / "steps" / str(step)).mkdir(parents=True)
  (folder / "steps" / "10.part").mkdir()
  if finished:
    (folder / "result.json").touch()
  return folder


def test_the_kept_steps_of_a_pretraining(hub, tmp_path, caplog):
  run = workdir(tmp_path, [0, 20, 3])
  assert kept_steps(run) == [0, 3, 20]
  assert kept_steps(tmp_path) == []
  with caplog.at_level(logging.WARNING):
    assert resolve(str(run)) == run / "steps" / "20"
    assert resolve(f"{run}@3") == run / "steps" / "3"
    assert resolve(f"{run}@3", weights=False) == run / "steps" / "3"
  assert caplog.text == ""
  with pytest.raises(UserError, match=r"step 4 .*run; .*: 0, 3, 20"):
    resolve(f"{run}@4")
  assert hub.revisions == []


def test_an_unfinished_pretraining_is_used_with_a_warning(tmp_path, caplog):
  run = workdir(tmp_path, [0, 20], finished=False)
  with caplog.at_level(logging.WARNING):
    assert resolve(str(run)) == run / "steps" / "20"
  assert str(run) in caplog.text
  assert "20" in caplog.text


@pytest.mark.parametrize("form", ["directory", "workdir", "step"])
def test_a_revision_of_a_local_directory_is_an_error(hub, tmp_path, form):
  run = workdir(tmp_path, [1])
  checkpoint = {"directory": str(tmp_path), "workdir": str(run), "step": f"{run}@1"}[form]
  assert resolve(checkpoint).is_dir()
  with pytest.raises(UserError, match=r"model\.revision = 'v1'") as caught:
    resolve(checkpoint, revision="v1")
  assert checkpoint in str(caught.value)
  assert hub.revisions == []


@pytest.mark.parametrize("checkpoint", ["./none", "/none", "~/none", "a/b/none"])
@pytest.mark.parametrize("revision", [None, "v1"])
def test_a_path_is_never_looked_for_on_the_hub(hub, tmp_path, checkpoint, revision):
  with pytest.raises(UserError, match=rf"directory {checkpoint}\b"):
    resolve(checkpoint, revision=revision)
  assert hub.revisions == []


def test_a_file_is_never_looked_for_on_the_hub(hub, tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(UserError, match="file is a file, and a checkpoint is a directory; give"):
    resolve("file")
  assert hub.revisions == []


def test_the_commit_of_a_directory(hub, tmp_path):
  assert hub_commit(resolve("someone/model")) == COMMIT
  assert hub_commit(tmp_path) is None
  for place in (
    f"models--a--b/blobs/{COMMIT}",
    f"datasets--a--b/snapshots/{COMMIT}",
    f"snapshots/{COMMIT}",
    "models--a--b/snapshots/main",
    f"models--a--b/snapshots/{COMMIT}/onnx",
  ):
    assert hub_commit(tmp_path / place) is None


def test_load_takes_a_revision(hub, testdata, monkeypatch):
  def snapshot_download(repo_id, **how):
    folder = hub.snapshot_download(repo_id, **how)
    shutil.copytree(testdata / "bert_small", folder, dirs_exist_ok=True)
    return folder

  monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
  model = models.load("someone/model", revision="v1")
  assert hub.revisions == ["v1"]
  assert hub_commit(model.source) == COMMIT
  local = models.load(str(testdata / "bert_small"))
  for ours, theirs in zip(
    nnx.to_flat_state(nnx.state(model)), nnx.to_flat_state(nnx.state(local)), strict=True
  ):
    np.testing.assert_array_equal(ours[1].get_value(), theirs[1].get_value())
  with pytest.raises(UserError, match=r"model\.revision = 'v1'"):
    models.load(str(testdata / "bert_small"), revision="v1")
