"""Tests GLUE from TensorFlow Datasets. Its own code reads small files here, in place of its downloads."""

import pytest

from discipline_jax import defaults, tasks
from discipline_jax.errors import UserError
from discipline_jax.tasks import glue_tfds
from tests.testdata.small_files import write_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """Makes a folder with GLUE's layout, including the test files that TensorFlow Datasets needs."""
  folder = tmp_path_factory.mktemp("glue")
  write_data(folder)
  for name in ("CoLA", "STS-B", "MNLI"):
    for path in list((folder / "glue_data" / name).glob("dev*.tsv")):
      text = path.read_text()
      path.with_name(path.name.replace("dev", "test")).write_text(text)
  cola = folder / "glue_data" / "CoLA" / "test.tsv"
  lines = cola.read_text().splitlines()
  cola.write_text(
    "index\tsentence\n" + "".join(f"{i}\t{line.split(chr(9))[3]}\n" for i, line in enumerate(lines))
  )
  return folder


@pytest.mark.parametrize("name", ["cola", "stsb", "mnli"])
def test_both_sources_give_the_same_samples(name, folder, monkeypatch):
  import tensorflow_datasets as tfds

  monkeypatch.setattr(
    tfds.download.DownloadManager, "download_and_extract", lambda *_: str(folder / "glue_data")
  )
  options = defaults.finetune().task
  ours = tasks.get(f"glue_{name}", folder, options).read()
  options.source = "tfds"
  theirs = tasks.get(f"glue_{name}", folder, options).read()
  assert ours.keys() == theirs.keys()
  for part in ours:
    # Sorted, because TensorFlow Datasets shuffles the samples.
    assert sorted(map(_key, ours[part])) == sorted(map(_key, theirs[part]))


def _key(example):
  return (example.sequence, example.second or "", example.label)


def test_a_failed_download_is_an_error_in_one_line(tmp_path, monkeypatch):
  import tensorflow_datasets as tfds

  def fail(*_):
    raise OSError("no network\nat all")

  monkeypatch.setattr(tfds.download.DownloadManager, "download_and_extract", fail)
  with pytest.raises(
    UserError, match=rf"glue/rte .*no network.*, {tmp_path}; .*task.source=files"
  ) as caught:
    glue_tfds.read_tfds("rte", {"train": "train.tsv"}, ("entailment", "not_entailment"), tmp_path)
  assert "\n" not in str(caught.value)


def test_an_unknown_source(tmp_path):
  options = defaults.finetune().task
  options.source = "web"
  with pytest.raises(UserError, match="task.source = 'web' .*files, tfds"):
    tasks.get("glue_rte", tmp_path, options)
