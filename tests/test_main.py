"""Whole runs: what they write and print."""

import json
import logging

import jax
import pytest

from discipline_jax.main import main
from tests.runs import CONFIG, one_device


class TestOutputs:
  def test_result(self, uninterrupted):
    workdir, stdout, _ = uninterrupted
    result = json.loads((workdir / "result.json").read_text())
    assert result.keys() == {
      "mode",
      "task",
      "metric",
      "model",
      "network",
      "init",
      "token_map",
      "replicas",
      "validation",
      "test",
      "best_steps",
      "steps",
      "collapsed",
      "examples_per_second",
      "seconds",
      "device",
      "versions",
    }
    assert result["network"] == "bert 1 x 32"
    assert (result["mode"], result["task"], result["replicas"], result["steps"]) == (
      "finetune",
      "dna_planted",
      2,
      60,
    )
    for part in ("validation", "test"):
      runs = result[part]["runs"]
      assert result[part]["mean"] == pytest.approx(sum(runs) / 2)
      assert result[part]["std"] == pytest.approx(abs(runs[0] - runs[1]) / 2**0.5)
    assert all(step in (20, 40, 60) for step in result["best_steps"])
    assert "validation" in stdout
    assert f"{result['test']['mean']:.1f} ±" in stdout

  def test_metrics(self, uninterrupted):
    workdir, _, _ = uninterrupted
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    result = json.loads((workdir / "result.json").read_text())
    train = [line for line in lines if line["split"] == "train"]
    assert {line["step"] for line in train} >= {10, 20, 30, 40, 50, 60}
    assert all(
      line.keys() == {"step", "split", "replica", "loss", "grad_norm", "learning_rate"}
      for line in train
    )
    for replica in range(2):  # the best of the validation lines is what the result says
      scores = {
        line["step"]: line["accuracy"]
        for line in lines
        if line["split"] == "validation" and line["replica"] == replica
      }
      assert max(scores.values()) == pytest.approx(result["validation"]["runs"][replica])
      assert [
        line["accuracy"] for line in lines if line["split"] == "test" and line["replica"] == replica
      ] == [result["test"]["runs"][replica]]

  def test_config_and_events(self, uninterrupted):
    workdir, _, _ = uninterrupted
    config = json.loads((workdir / "config.json").read_text())
    assert config["train"]["steps"] == 60
    assert list((workdir / "events").glob("events.out.tfevents.*"))

  def test_a_finished_run_is_shown_and_not_run_again(self, uninterrupted, capsys):
    workdir, stdout, _ = uninterrupted
    before = (workdir / "result.json").stat().st_mtime_ns
    assert main(["main", CONFIG, f"--workdir={workdir}"]) == 0
    assert capsys.readouterr().out == stdout
    assert (workdir / "result.json").stat().st_mtime_ns == before

  def test_another_config_in_the_workdir_is_an_error(self, uninterrupted, capsys):
    workdir, _, _ = uninterrupted
    assert main(["main", CONFIG, f"--workdir={workdir}", "--config.train.steps=61"]) == 2
    assert "train.steps is 61, but the run in this workdir has 60" in capsys.readouterr().err


def test_the_step_that_is_compiled_ahead_is_the_one_that_trains(tmp_path, caplog):
  arguments = ["--config.replicas=1", "--config.train.steps=1"]
  with one_device(), jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
    assert main(["main", CONFIG, f"--workdir={tmp_path / 'run'}", *arguments]) == 0
  steps = [line for line in caplog.messages if "XLA compilation of jit(step)" in line]
  # That of evaluation: of the other thread, which compiles the training step, nothing is logged.
  assert len(steps) == 1, steps


@pytest.mark.parametrize("name", ["quickstart", "configs/quickstart.py", "./configs/quickstart"])
def test_dry_run_by_any_name_says_what_would_run_and_writes_nothing(
  name, tmp_path, capsys, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  assert main(["main", "--config", name, "--dry-run"]) == 0
  stdout = capsys.readouterr().out
  assert stdout.splitlines()[0] == "pretrain: pretrain, runs/quickstart/pretrain"
  assert list(tmp_path.iterdir()) == []


def test_dry_run_says_what_the_data_are(tmp_path, capsys):
  assert main(["main", CONFIG, f"--workdir={tmp_path / 'run'}", "--dry-run"]) == 0
  stdout = capsys.readouterr().out
  assert "dna_planted: 4000 samples" in stdout
  assert "3600 train, 200 validation, 200 test" in stdout
  assert list(tmp_path.iterdir()) == []


def test_help(capsys):
  assert main(["main", "--help"]) == 0
  stdout = capsys.readouterr().out
  assert "--config" in stdout
  assert "dry-run" in stdout
