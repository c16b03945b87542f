"""Tests the way from Wikipedia in TensorFlow Datasets to kept steps, on a small data set of the same form.

It is prepared in parts; a second run on the corpus that is prepared in one go has the same losses.
"""

import json

import pytest

from discipline_jax.corpora import prepare as prepare_module
from discipline_jax.main import main
from tests.whole_runs import one_device

TEXTS = [
  f"Town {i}\n\nTown {i} is a town. It has {i} houses and a river.\n\nHistory\nIt was founded in {1000 + i}."
  for i in range(40)
]
NAME = "wikipedia/20230601.en"


@pytest.fixture
def wikipedia(monkeypatch):
  """Writes ArrayRecord files as the data set's own builder does, where TensorFlow Datasets looks for them."""
  tfds = pytest.importorskip("tensorflow_datasets")

  class Small(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    name = "wikipedia"
    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = (tfds.core.BuilderConfig(name=NAME.partition("/")[2], version="1.0.0"),)

    def _info(self):
      features = {"title": tfds.features.Text(), "text": tfds.features.Text()}
      return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, _):
      return {"train": self._generate_examples()}

    def _generate_examples(self):
      for text in TEXTS:
        title = text.partition("\n")[0]
        yield title, {"title": title, "text": text}

  Small(file_format="array_record").download_and_prepare()


def test_from_the_data_set_to_kept_steps(wikipedia, tmp_path, testdata, capsys):
  arguments = [
    f"--config={testdata / 'tiny_pretrain.py'}",
    f"--config.cache_dir={tmp_path / 'cache'}",
    "--config.corpus.name=tfds",
    f"--config.corpus.path={NAME}",
    "--config.objective.kind=mlm_nsp",
    "--config.model.config.vocab_size=150",
    "--config.train.steps=3",
  ]
  for part in ("1/2", "2/2"):
    prepare_module.main(["prepare", *arguments, f"--part={part}"])
  prepare_module.main(["prepare", *arguments, "--merge"])
  assert "40 documents" in capsys.readouterr().out
  with one_device():
    assert main(["main", *arguments, f"--workdir={tmp_path / 'run'}"]) == 0, capsys.readouterr().err
  assert (tmp_path / "run" / "steps" / "3" / "model.safetensors").is_file()
  plain = [*arguments, f"--config.cache_dir={tmp_path / 'plain'}"]
  with one_device():
    assert main(["main", *plain, f"--workdir={tmp_path / 'again'}"]) == 0, capsys.readouterr().err
  names = [
    [path.name for path in (tmp_path / cache / "corpora").iterdir() if path.is_dir()]
    for cache in ("cache", "plain")
  ]
  assert names[0] == names[1]
  assert len(names[0]) == 1
  results = [
    json.loads((tmp_path / run / "result.json").read_text())["validation"]
    for run in ("run", "again")
  ]
  assert results[0]["mlm_loss"] > 0
  assert results[0] == results[1]
