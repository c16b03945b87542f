"""Tests preparations by Apache Beam, where it is installed: the same files, and the same errors."""

import pathlib
import re

import pytest

from discipline_jax.corpora import prepare as module
from discipline_jax.corpora import ranges
from discipline_jax.corpora.prepare import prepare
from discipline_jax.errors import UserError
from tests.corpora.small_text import content, small_config

pytest.importorskip("apache_beam", reason="Apache Beam has an environment of its own: see docs")

from discipline_jax.corpora.beam import pipelines

WORKERS = {
  "one": [],
  "two": ["--direct_num_workers=2", "--direct_running_mode=multi_processing"],
}


@pytest.mark.parametrize("workers", WORKERS)
def test_the_same_files_as_without_beam(workers, tmp_path, monkeypatch):
  monkeypatch.setattr(ranges, "CHARACTERS", 3000)
  config = small_config(tmp_path)
  config.cache_dir = str(tmp_path / "plain")
  plain = content(prepare(config).directory)
  assert "train-24-0-00002.array_record" in plain
  config.cache_dir = str(tmp_path / "beam")
  prepared = prepare(config, pipelines("DirectRunner", WORKERS[workers]))
  assert content(prepared.directory) == plain


def test_what_a_task_raises_is_one_line(tmp_path):
  config = small_config(tmp_path)
  pathlib.Path(config.corpus.path).write_text("One. Two.\n\nThree.\n")
  with pytest.raises(UserError, match=r"\b2 document.*\b4;"):
    prepare(config, pipelines("DirectRunner", []))


def test_a_runner_that_beam_does_not_have(tmp_path):
  with pytest.raises(UserError, match="--runner=NoRunner"):
    prepare(small_config(tmp_path), pipelines("NoRunner", []))


@pytest.mark.parametrize("option", ["--direct_num_worker=2", "--direct_num_workers=two", "stray"])
def test_options_that_beam_does_not_have(option):
  with pytest.raises(UserError, match=option.partition("=")[0]):
    pipelines("DirectRunner", ["--direct_num_workers=1", option])


def test_a_job_server_may_have_options_of_its_own():
  pipelines("FlinkRunner", ["--checkpointing_interval=1000"])


def test_the_command(tmp_path, testdata, capsys):
  command = [
    "prepare",
    f"--config={testdata / 'tiny_pretrain.py'}",
    f"--config.cache_dir={tmp_path / 'cache'}",
  ]
  module.main([*command, "--runner=DirectRunner", "--", "--direct_num_workers=1"])
  found = re.search(r"folder +(.*)", capsys.readouterr().out)
  assert found
  assert pathlib.Path(found[1]).is_dir()
