"""Tests what whole runs write and print."""

import errno
import gc
import json
import logging
import os
import shutil
import signal
import time

import jax
import pytest

from discipline_jax import command_line
from discipline_jax.errors import UserError
from discipline_jax.exit_codes import exit_code
from discipline_jax.main import main
from tests.whole_runs import CONFIG, one_device


class TestOutputs:
  def test_result(self, uninterrupted):
    workdir, stdout, _ = uninterrupted
    result = json.loads((workdir / "result.json").read_text())
    assert result.keys() == {
      "mode",
      "identity",
      "commit",
      "inputs",
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
      "goodput",
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
    error = capsys.readouterr().err
    assert "train.steps" in error
    assert str(workdir / "config.json") in error


def test_the_step_that_is_compiled_ahead_is_the_one_that_trains(tmp_path, caplog):
  arguments = ["--config.replicas=1", "--config.train.steps=1"]
  with one_device(), jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
    assert main(["main", CONFIG, f"--workdir={tmp_path / 'run'}", *arguments]) == 0
  steps = [line for line in caplog.messages if "XLA compilation of jit(step)" in line]
  # The one of evaluation: nothing is logged of the other threads, which compile the training step.
  assert len(steps) == 1, steps


@pytest.mark.parametrize("name", ["quickstart", "configs/quickstart.py", "./configs/quickstart"])
def test_dry_run_by_any_name_says_what_would_run_and_writes_nothing(
  name, tmp_path, capsys, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  assert main(["main", "--config", name, "--dry-run"]) == 0
  stdout = capsys.readouterr().out
  assert stdout.splitlines()[1].split() == ["pretrain", "pretrain", "missing"]
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


def test_every_length_is_compiled_before_the_workdir_is_claimed(tmp_path, capsys, monkeypatch):
  """Too little memory for the longest batches leaves the workdir to the corrected run."""
  rows = [f"{'ACGT' * length},{number % 2}" for number in range(100) for length in (2, 30)]
  (tmp_path / "mine.csv").write_text("sequence,label\n" + "\n".join(rows) + "\n")
  arguments = [
    *("main", CONFIG, "--config.task.name=custom", f"--config.task.path={tmp_path / 'mine.csv'}"),
    *("--config.model.config.max_position_embeddings=200", "--config.train.steps=6"),
    *("--config.eval.batch_size=8", f"--workdir={tmp_path / 'run'}"),
  ]
  compile_step, lengths = jax.stages.Lowered.compile, []

  def full(lowered, *options, **settings):
    lengths.append(lowered)
    if len(lengths) == 2:
      raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 7 bytes.")
    return compile_step(lowered, *options, **settings)

  with one_device(), monkeypatch.context() as patch:
    patch.setattr(jax.stages.Lowered, "compile", full)
    assert main(arguments) == 3
  assert len(lengths) == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert "allocating 7 bytes" in error
  assert "train.grad_accumulation" in error
  assert not (tmp_path / "run" / "config.json").exists()
  with one_device():
    assert main([*arguments, "--config.train.grad_accumulation=4"]) == 0


@pytest.mark.parametrize(
  ("mode", "named", "not_named"),
  [
    ("predict", "eval.batch_size", "train."),
    ("finetune", "train.grad_accumulation", "remat=False"),
    ("export", "device", "batch_size"),
  ],
)
def test_the_advice_on_too_little_memory_is_the_modes_own(
  mode, named, not_named, monkeypatch, capsys
):
  def full(*_, **__):
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 7 bytes.")

  monkeypatch.setattr(f"discipline_jax.{mode}.{mode}", full)
  assert main(["main", CONFIG, f"--config.mode={mode}"]) == 3
  error = capsys.readouterr().err
  assert named in error
  assert not_named not in error


def test_other_failures_of_the_device_keep_their_traceback(monkeypatch):
  def broken(*_, **__):
    raise jax.errors.JaxRuntimeError("INTERNAL: something else")

  monkeypatch.setattr("discipline_jax.finetune.finetune", broken)
  with pytest.raises(jax.errors.JaxRuntimeError):
    main(["main", CONFIG])


def test_a_ctrl_c_in_a_callback_whose_errors_python_ignores_stops_the_command(capsys):
  def lost(*_):
    gc.callbacks.remove(lost)
    signal.raise_signal(signal.SIGINT)

  def command():
    gc.callbacks.append(lost)
    gc.collect()
    time.sleep(30)
    raise AssertionError("the command went on")

  assert exit_code(command) == 130
  assert capsys.readouterr().err == "stopped: interrupted; run the same command to go on\n"


@pytest.mark.parametrize(
  ("number", "code"),
  [(errno.ENOSPC, 3), (errno.EDQUOT, 3), (errno.EACCES, 2), (errno.EROFS, 2), (errno.EIO, None)],
)
def test_errors_of_the_system(number, code, monkeypatch, capsys):
  """A full disk and a forbidden place are told in one line; anything else may be a bug and keeps its traceback."""

  def fail(*_, **__):
    raise OSError(number, os.strerror(number), "/some/file")

  monkeypatch.setattr("discipline_jax.finetune.finetune", fail)
  if code is None:
    with pytest.raises(OSError, match="/some/file"):
      main(["main", CONFIG])
    return
  assert main(["main", CONFIG]) == code
  error = capsys.readouterr().err
  assert len(error.splitlines()) == 1
  assert "/some/file" in error
  assert ("free space" in error) == (code == 3)


class TestUnsetting:
  def test_an_optional_field(self, capsys, testdata):
    sizes = testdata / "bert_small"
    given = ["main", "--config=dna_splice", f"--config.model.checkpoint={sizes}"]
    fields = command_line.parse([*given, "--config.model.checkpoint=None"]).config
    assert fields.model.checkpoint is None
    fields = command_line.parse(["main", CONFIG, "--config.train.steps=None"]).config
    assert fields.train.steps is None

  def test_a_field_of_a_run_of_a_study(self):
    name = "runs.scratch.model.checkpoint"
    config = command_line.parse(["main", "--config=quickstart", f"--config.{name}=None"]).config
    assert config.runs.scratch.model.checkpoint is None
    assert config.runs.step_0.model.checkpoint == "pretrain@0"

  @pytest.mark.parametrize("name", ["seed", "model.init", "train.learning_rate", "model.config"])
  def test_a_field_that_always_has_a_value(self, name):
    with pytest.raises(UserError, match=name):
      command_line.parse(["main", CONFIG, f"--config.{name}=None"])

  def test_an_unknown_field(self):
    with pytest.raises(UserError, match="model.chekpoint"):
      command_line.parse(["main", CONFIG, "--config.model.chekpoint=None"])

  def test_the_last_of_several_values_counts(self):
    name = "--config.model.checkpoint"
    config = command_line.parse(["main", CONFIG, f"{name}=None", f"{name}=there"]).config
    assert config.model.checkpoint == "there"
    config = command_line.parse(["main", CONFIG, f"{name}=there", f"{name}=None"]).config
    assert config.model.checkpoint is None

  @pytest.mark.parametrize("mode", ["predict", "export"])
  def test_in_modes_that_use_a_finished_run(self, mode):
    arguments = ["main", CONFIG, f"--config.mode={mode}", "--config.task.splits=None"]
    assert command_line.parse(arguments).config.task.splits is None


def test_checkpoints_without_a_config_are_refused(uninterrupted, tmp_path, capsys):
  """Such checkpoints may belong to another run, and would keep new ones from being saved."""
  shutil.copytree(uninterrupted[0] / "checkpoints", tmp_path / "run" / "checkpoints")
  with one_device():
    assert main(["main", CONFIG, f"--workdir={tmp_path / 'run'}"]) == 2
  assert str(tmp_path / "run") in capsys.readouterr().err.splitlines()[-1]
  assert not (tmp_path / "run" / "config.json").exists()
