"""Tests that runs which are killed, stopped, or go wrong half-way lose nothing that was finished."""

import itertools
import json
import pathlib
import random
import re
import signal

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from discipline_jax.main import main
from discipline_jax.models.platform import AXES
from discipline_jax.training.signals import Signals
from tests.whole_runs import CONFIG, finish, last_step, one_device, start, wait_for_step


def last_checkpoint(workdir: pathlib.Path) -> list[np.ndarray]:
  manager = ocp.CheckpointManager((workdir / "checkpoints").absolute())
  assert manager.latest_step() == 60
  return jax.tree.leaves(manager.restore(60, args=ocp.args.StandardRestore()))


def test_killed_and_stopped_then_identical_bits(uninterrupted, tmp_path):
  """Stops the run by SIGTERM, kills it, and stops it by SIGINT; its last start must give the same bits."""
  whole, _, _ = uninterrupted
  workdir = tmp_path / "run"
  for step, number, code in (
    (5, signal.SIGTERM, 75),
    (15, signal.SIGKILL, -signal.SIGKILL),
    (30, signal.SIGINT, 130),
  ):
    process = start(workdir)
    wait_for_step(workdir, min(50, max(step, last_step(workdir) + random.randint(1, 10))))
    process.send_signal(number)
    found, _, stderr = finish(process)
    assert found == code, stderr
    assert "Traceback" not in stderr
    assert (number == signal.SIGKILL) != ("stopped: at step " in stderr)
    assert not (workdir / "result.json").exists()
  code, _, stderr = finish(start(workdir))
  assert code == 0, stderr
  assert "Resuming from step" in stderr
  for ours, theirs in zip(last_checkpoint(workdir), last_checkpoint(whole), strict=True):
    np.testing.assert_array_equal(ours, theirs)
  same_results(workdir, whole)
  starts: dict[int, float] = {}
  for line in map(json.loads, (workdir / "starts.jsonl").read_text().splitlines()):
    starts[line["start"]] = line["seconds"]
  assert list(starts) == [0, 1, 2, 3]
  result = json.loads((workdir / "result.json").read_text())
  assert result["seconds"] >= sum(starts.values()), "the time of all starts counts"
  assert 0 < result["goodput"] < 1
  steps = [
    (line["step"], line["split"], line["replica"])
    for line in map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
  ]
  assert len(set(steps)) == len(steps), "a step is logged twice"


def same_results(workdir, whole):
  ours, theirs = (json.loads((path / "result.json").read_text()) for path in (workdir, whole))
  for field in ("validation", "test", "best_steps", "steps"):
    assert ours[field] == theirs[field]
  ours, theirs = ((path / "predictions.npz").read_bytes() for path in (workdir, whole))
  assert ours == theirs


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, capsys):
  workdir = tmp_path / "diverged"
  arguments = ["--config.train.learning_rate=1e30", "--config.replicas=1"]
  with one_device():
    assert main(["main", CONFIG, f"--workdir={workdir}", *arguments]) == 3
  last_line = capsys.readouterr().err.splitlines()[-1]
  assert re.match(
    r"error: the training loss is \[.*\] and the gradient's norm \[.*\] at step \d+; ", last_line
  )
  assert "lower train.learning_rate" in last_line
  assert not (workdir / "result.json").exists()


def test_going_on_over_eight_devices_and_past_a_broken_checkpoint(
  uninterrupted, tmp_path, capsys, monkeypatch, caplog
):
  """Stops at step 15 on eight virtual devices, spoils that checkpoint, and goes on from step 14 on another mesh."""
  arguments = ["main", CONFIG, f"--workdir={tmp_path / 'run'}"]
  calls = itertools.count(1)
  with monkeypatch.context() as patch:
    patch.setattr(Signals, "received", lambda *_: signal.SIGTERM if next(calls) == 15 else 0)
    assert main(arguments) == 75
  assert "stopped: at step 15" in capsys.readouterr().err
  for path in (tmp_path / "run" / "checkpoints" / "15").rglob("*"):
    if path.is_file():
      path.write_bytes(b"")
  assert main([*arguments, *(f"--config.mesh.{axis}=2" for axis in AXES)]) == 0
  assert "The checkpoint of step 15 cannot be read" in caplog.text
  assert "Resuming from step 14" in caplog.text
  result, expected = (
    json.loads((path / "result.json").read_text()) for path in (tmp_path / "run", uninterrupted[0])
  )
  assert result["device"] == "8 x cpu"
  # eight devices add in another order
  assert result["test"]["mean"] == pytest.approx(expected["test"]["mean"], abs=2)
