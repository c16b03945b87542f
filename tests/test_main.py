"""Whole runs, as a user starts them."""

import fcntl
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from discipline_jax.main import main
from discipline_jax.training.signals import Signals

CONFIG = f"--config={pathlib.Path(__file__).parent / 'testdata' / 'tiny.py'}"


def start(workdir: pathlib.Path, *arguments: str) -> subprocess.Popen:
  """A run in a process of its own, on one device."""
  environment = {**os.environ, "XLA_FLAGS": ""}
  return subprocess.Popen(
    [
      sys.executable,
      "-m",
      "discipline_jax.main",
      CONFIG,
      f"--workdir={workdir}",
      f"--config.cache_dir={workdir.parent / 'cache'}",
      *arguments,
    ],
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    cwd=pathlib.Path(__file__).parents[1],
  )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
  stdout, stderr = process.communicate(timeout=300)
  return process.returncode, stdout, stderr


def last_step(workdir: pathlib.Path) -> int:
  """The last step in a run's log, of which a kill may have cut the last line."""
  path = workdir / "metrics.jsonl"
  lines = path.read_text().splitlines() if path.exists() else []
  return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def wait_for_step(workdir: pathlib.Path, step: int) -> None:
  deadline = time.monotonic() + 200
  while last_step(workdir) < step:
    assert time.monotonic() < deadline, f"no step {step} in {workdir}"
    time.sleep(0.02)


def last_checkpoint(workdir: pathlib.Path) -> list[np.ndarray]:
  manager = ocp.CheckpointManager((workdir / "checkpoints").absolute())
  assert manager.latest_step() == 60
  return jax.tree.leaves(manager.restore(60, args=ocp.args.StandardRestore()))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
  workdir = tmp_path_factory.mktemp("runs") / "whole"
  code, stdout, stderr = finish(start(workdir))
  assert code == 0, stderr
  return workdir, stdout, stderr


class TestOutputs:
  def test_result(self, uninterrupted):
    workdir, stdout, _ = uninterrupted
    result = json.loads((workdir / "result.json").read_text())
    assert result.keys() == {
      "mode",
      "task",
      "metric",
      "model",
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
    assert (
      main(
        ["main", CONFIG, f"--workdir={workdir}", f"--config.cache_dir={workdir.parent / 'cache'}"]
      )
      == 0
    )
    assert capsys.readouterr().out == stdout
    assert (workdir / "result.json").stat().st_mtime_ns == before

  def test_another_config_in_the_workdir_is_an_error(self, uninterrupted, capsys):
    workdir, _, _ = uninterrupted
    assert main(["main", CONFIG, f"--workdir={workdir}", "--config.train.steps=61"]) == 2
    assert "train.steps is 61, but the run in this workdir has 60" in capsys.readouterr().err


class TestInterruptions:
  def test_kill_at_random_moments_then_identical_bits(self, uninterrupted, tmp_path):
    whole, _, _ = uninterrupted
    shutil.copytree(whole.parent / "cache", tmp_path / "cache")
    workdir = tmp_path / "killed"
    for _ in range(2):
      process = start(workdir)
      wait_for_step(workdir, min(50, last_step(workdir) + random.randint(1, 20)))
      process.kill()
      process.communicate()
      assert not (workdir / "result.json").exists()
    code, _, stderr = finish(start(workdir))
    assert code == 0, stderr
    for ours, theirs in zip(last_checkpoint(workdir), last_checkpoint(whole), strict=True):
      np.testing.assert_array_equal(ours, theirs)
    self.same_results(workdir, whole)
    steps = [
      (line["step"], line["split"], line["replica"])
      for line in map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    ]
    assert len(set(steps)) == len(steps), "a step is logged twice"

  @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
  def test_a_signal_saves_and_the_next_start_goes_on(self, uninterrupted, tmp_path, number, code):
    whole, _, _ = uninterrupted
    shutil.copytree(whole.parent / "cache", tmp_path / "cache")
    process = start(tmp_path / "stopped")
    wait_for_step(tmp_path / "stopped", 5)
    process.send_signal(number)
    found, _, stderr = finish(process)
    assert found == code, stderr
    assert stderr.splitlines()[-1].startswith("stopped: stopped at step ")
    assert "Traceback" not in stderr
    code, _, stderr = finish(start(tmp_path / "stopped"))
    assert code == 0, stderr
    assert "Going on from step" in stderr
    self.same_results(tmp_path / "stopped", whole)

  def same_results(self, workdir, whole):
    ours, theirs = (json.loads((path / "result.json").read_text()) for path in (workdir, whole))
    for field in ("validation", "test", "best_steps", "steps"):
      assert ours[field] == theirs[field]

  def test_a_loss_that_is_not_finite_stops_the_run(self, tmp_path, capsys):
    workdir = tmp_path / "diverged"
    assert (
      main(
        [
          "main",
          CONFIG,
          f"--workdir={workdir}",
          f"--config.cache_dir={tmp_path}",
          "--config.train.learning_rate=1e30",
          "--config.replicas=1",
        ]
      )
      == 3
    )
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert re.match(
      r"error: the training loss is \[.*\] and the gradient's norm \[.*\] at step \d+; ", last_line
    )
    assert "lower train.learning_rate" in last_line
    assert not (workdir / "result.json").exists()

  def test_two_processes_in_one_workdir(self, tmp_path, capsys):
    with (tmp_path / ".lock").open("w") as lock:
      fcntl.flock(lock, fcntl.LOCK_EX)
      assert main(["main", CONFIG, f"--workdir={tmp_path}", f"--config.cache_dir={tmp_path}"]) == 2
    assert "another process works in" in capsys.readouterr().err

  def test_going_on_over_eight_devices_and_past_a_broken_checkpoint(
    self, uninterrupted, tmp_path, capsys, monkeypatch, caplog
  ):
    """In this process, on the eight virtual devices: stop at step 15, spoil that checkpoint, go on from 14."""
    arguments = ["main", CONFIG, f"--workdir={tmp_path / 'run'}", f"--config.cache_dir={tmp_path}"]
    calls = itertools.count(1)
    with monkeypatch.context() as patch:
      patch.setattr(Signals, "received", lambda _: signal.SIGTERM if next(calls) == 15 else 0)
      assert main(arguments) == 75
    assert "stopped at step 15" in capsys.readouterr().err
    for path in (tmp_path / "run" / "checkpoints" / "15").rglob("*"):
      if path.is_file():
        path.write_bytes(b"")
    assert main(arguments) == 0
    assert "The checkpoint of step 15 cannot be read" in caplog.text
    assert "Going on from step 14" in caplog.text
    result, expected = (
      json.loads((path / "result.json").read_text())
      for path in (tmp_path / "run", uninterrupted[0])
    )
    assert result["device"] == "8 x cpu"
    # eight devices add in another order
    assert result["test"]["mean"] == pytest.approx(expected["test"]["mean"], abs=2)

  def test_broken_weights_leave_the_workdir_to_the_corrected_run(self, shared, tmp_path, capsys):
    good, checkpoint = shared / "models" / "bert-tiny-uncased", tmp_path / "bert"
    checkpoint.mkdir()
    for name in ("config.json", "vocab.txt"):
      shutil.copyfile(good / name, checkpoint / name)
    (checkpoint / "model.safetensors").write_bytes(
      (good / "model.safetensors").read_bytes()[:10_000_000]
    )
    arguments = [
      *(
        "main",
        "--config=dna_splice",
        f"--config.data_dir={shared / 'data'}",
        "--config.replicas=1",
      ),
      *(
        f"--workdir={tmp_path / 'run'}",
        f"--config.cache_dir={tmp_path}",
        "--config.train.steps=1",
      ),
    ]
    assert main([*arguments, f"--config.model.checkpoint={checkpoint}"]) == 2
    assert "not a whole safetensors file" in capsys.readouterr().err
    assert main([*arguments, f"--config.model.checkpoint={good}"]) == 0


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "no --config; try --config=configs/quickstart.py"),
    (["--config=nothing.py"], "no config file nothing.py; give a path, or one of: dna_h3, "),
    (
      [CONFIG, "--config.train.lr=3"],
      "the config has no field 'train.lr'; in place of 'lr' it has: batch_size, ",
    ),
    (
      [CONFIG, "--config.train.batch_size.x=3"],
      "the config has no field 'train.batch_size.x'; in place of 'x' it has: no fields",
    ),
    ([CONFIG, "--config.train.batch_size=many"], "invalid literal for int"),
    ([CONFIG, "--bogus"], "Unknown command line flag 'bogus'"),
    ([CONFIG, "bogus"], "unexpected argument 'bogus'"),
    ([CONFIG, "--config.mode=fly"], "mode = 'fly' is not one of: finetune"),
    ([CONFIG, "--config.task.name=dna_h9"], "task.name = 'dna_h9' is not one of: "),
    ([CONFIG, "--config.token_map.kind=moved"], "token_map.kind = 'moved' is not one of: "),
    ([CONFIG, "--config.model.init=warm"], "model.init = 'warm' is not one of: "),
    (
      [CONFIG, "--config.model.init=pretrained"],
      "model.init = 'pretrained' needs --config.model.checkpoint",
    ),
    (
      [CONFIG, "--config.model.dtype=float8"],
      "model.dtype = 'float8' is not one of: float32, bfloat16",
    ),
    ([CONFIG, "--config.model.dropout=1.0"], "model.dropout = 1.0 is not in [0, 1)"),
    (
      [CONFIG, "--config.model.checkpoint=./nowhere"],
      "model.config.hidden_size is set, but the sizes come from model.checkpoint",
    ),
    (
      ["--config=dna_splice", "--config.model.checkpoint=./nowhere"],
      "no checkpoint directory ./nowhere; put config.json and model.safetensors",
    ),
    (
      [CONFIG, "--config.model.config.vocab_size=10"],
      "model.config.vocab_size = 10 is less than the task's 15 symbols and 5 special tokens; set at least 20",
    ),
    ([CONFIG, "--config.train.optimizer=sgd"], "train.optimizer = 'sgd' is not one of: "),
    (
      [CONFIG, "--config.train.batch_size=3601"],
      "train.batch_size = 3601 is larger than the training set of 3600 samples",
    ),
    ([CONFIG, "--config.train.batch_size=0"], "train.batch_size = 0 is less than 1"),
    (
      [CONFIG, "--config.train.learning_rate=nan"],
      "train.learning_rate = nan is not a number from 0 on",
    ),
    (
      [CONFIG, "--config.train.grad_accumulation=33"],
      "train.grad_accumulation = 33 parts of 32 samples",
    ),
    ([CONFIG, "--config.task.train_fraction=0.0"], "task.train_fraction = 0.0 is not in (0, 1]"),
    ([CONFIG, "--config.task.train_fraction=1.5"], "task.train_fraction = 1.5 is not in (0, 1]"),
    (
      [CONFIG, "--config.task.max_length=65"],
      "task.max_length = 65 is not from 3 to the model's max_position_embeddings = 64",
    ),
    ([CONFIG, "--config.mesh.data=3"], "mesh of data=3, fsdp=1, tensor=1 does not fit 8 device(s)"),
  ],
)
def test_mistakes_are_one_line_and_exit_2(arguments, message, tmp_path, capsys, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("DISCIPLINE_DATA", str(tmp_path))
  assert main(["main", *arguments]) == 2
  stdout, stderr = capsys.readouterr()
  assert stdout == ""
  assert len(stderr.splitlines()) == 1
  assert stderr.startswith("error: ")
  assert message in stderr
  assert list(tmp_path.iterdir()) == [], "a mistake left files"


def test_missing_data_says_where_to_get_it_and_where_to_put_it(tmp_path, capsys, testdata):
  assert (
    main(
      [
        "main",
        "--config=dna_splice",
        f"--config.model.checkpoint={testdata / 'bert_small'}",
        f"--config.data_dir={tmp_path}",
      ]
    )
    == 2
  )
  stderr = capsys.readouterr().err
  assert "no tokenizer with the 300 entries" in stderr
  assert (
    main(
      [
        "main",
        CONFIG,
        "--config.task.name=dna_h3",
        f"--config.data_dir={tmp_path}",
        "--config.model.config.max_position_embeddings=600",
      ]
    )
    == 2
  )
  stderr = capsys.readouterr().err
  assert (
    f"no file {tmp_path}/dna/H3.txt; get data/H3.txt of github.com/Doulrs/Hilbert-CNN and put"
    f" it at {tmp_path}/dna/H3.txt" in stderr
  )


def test_a_workdir_that_cannot_be_made(tmp_path, capsys):
  (tmp_path / "file").write_text("")
  assert main(["main", CONFIG, f"--workdir={tmp_path / 'file' / 'run'}"]) == 2
  assert "cannot write to the workdir (Not a directory)" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["quickstart", "configs/quickstart.py", "./configs/quickstart"])
def test_dry_run_by_any_name_says_what_would_run_and_writes_nothing(
  name, tmp_path, capsys, monkeypatch
):
  monkeypatch.chdir(tmp_path)
  assert main(["main", "--config", name, "--dry-run"]) == 0
  stdout = capsys.readouterr().out
  assert "dna_planted: 4000 samples" in stdout
  assert "3600 train, 200 validation, 200 test" in stdout
  assert list(tmp_path.iterdir()) == []


def test_help(capsys):
  assert main(["main", "--help"]) == 0
  stdout = capsys.readouterr().out
  assert "--config" in stdout
  assert "dry-run" in stdout


@pytest.mark.parametrize("name", ["dna_h3", "dna_splice"])
def test_configs_run_on_the_real_files(name, shared, tmp_path, capsys):
  """A few steps of each, with a real checkpoint and the true files."""
  arguments = [
    f"--config={name}",
    f"--config.data_dir={shared / 'data'}",
    f"--config.model.checkpoint={shared / 'models' / 'bert-tiny-uncased'}",
    "--config.train.steps=2",
    "--config.train.batch_size=8",
    "--config.replicas=1",
    "--config.eval.max_examples=8",
    f"--workdir={tmp_path / 'run'}",
    f"--config.cache_dir={tmp_path}",
  ]
  assert main(["main", *arguments]) == 0
  assert f"task        {name} (accuracy)" in capsys.readouterr().out
