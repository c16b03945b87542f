"""GLUE through TensorFlow Datasets: its own reader makes the files, from small ones in place of what it downloads."""

import pytest

from discipline_jax import defaults, tasks
from discipline_jax.errors import UserError
from discipline_jax.tasks import glue_tfds
from tests.testdata.small_files import write_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """GLUE's layout, with the test files that TensorFlow Datasets asks for."""
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
def test_the_same_samples_as_from_the_files(name, folder, monkeypatch):
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
    # in another order: TensorFlow Datasets shuffles
    assert sorted(map(_key, ours[part])) == sorted(map(_key, theirs[part]))


def _key(example):
  return (example.sequence, example.second or "", example.label)


def test_what_cannot_be_had_is_one_line(tmp_path, monkeypatch):
  import tensorflow_datasets as tfds

  def fail(*_):
    raise OSError("no network\nat all")

  monkeypatch.setattr(tfds.download.DownloadManager, "download_and_extract", fail)
  with pytest.raises(
    UserError, match=r"has no glue/rte \(.*no network\), .*; set task.source=files"
  ):
    glue_tfds.read_tfds("rte", {"train": "train.tsv"}, ("entailment", "not_entailment"), tmp_path)


def test_an_unknown_source(tmp_path):
  options = defaults.finetune().task
  options.source = "web"
  with pytest.raises(UserError, match="task.source = 'web' is not one of: files, tfds"):
    tasks.get("glue_rte", tmp_path, options)
