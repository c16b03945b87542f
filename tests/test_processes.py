"""Tests a run over two processes, as on a pod of accelerators."""

import json
import pathlib
import re

import numpy as np
import pytest

from tests.whole_runs import SMALL, finish, start_config, start_two

PRETRAIN = pathlib.Path(__file__).parent / "testdata" / "tiny_pretrain.py"


def losses(workdir):
  lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
  return {
    (line["step"], line["replica"]): line["loss"] for line in lines if line["split"] == "train"
  }


def test_two_processes_train_as_one(uninterrupted, tmp_path):
  ended = [finish(process) for process in start_two(SMALL, tmp_path / "run", by_slurm=True)]
  assert [code for code, _, _ in ended] == [0, 0], ended
  assert "validation" in ended[0][1]
  assert "validation" not in ended[1][1], "the second process prints what the first does"
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  assert result["device"] == "2 x cpu"
  ours, theirs = losses(tmp_path / "run"), losses(uninterrupted[0])
  assert ours.keys() == theirs.keys()
  # the two halves of a batch are added in another order
  np.testing.assert_allclose(list(ours.values()), list(theirs.values()), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("config", [SMALL, PRETRAIN], ids=["finetune", "pretrain"])
def test_a_tensor_axis_over_two_processes_of_four_devices(config, tmp_path):
  """Both processes then need the same rows."""
  arguments = [
    "--config.train.steps=10",
    "--config.train.log_every_steps=1",
    "--config.model.config.num_attention_heads=16",
    "--config.model.config.intermediate_size=64",
    *(["--config.checkpoint.keep_steps=()"] if config == PRETRAIN else ["--config.replicas=1"]),
  ]
  mesh = [f"--config.mesh.{axis}={size}" for axis, size in (("data", 1), ("tensor", 8))]
  alone = start_config(config, tmp_path / "one", *arguments)
  code, _, stderr = finish(alone)
  assert code == 0, stderr
  both = start_two(config, tmp_path / "two", *arguments, *mesh, devices=4)
  ended = [finish(process) for process in both]
  assert [code for code, _, _ in ended] == [0, 0], ended
  assert json.loads((tmp_path / "two" / "result.json").read_text())["device"] == "8 x cpu"
  ours, theirs = losses(tmp_path / "two"), losses(tmp_path / "one")
  assert ours.keys() == theirs.keys()
  assert len(ours) == 10
  np.testing.assert_allclose(list(ours.values()), list(theirs.values()), atol=1e-5)


@pytest.mark.parametrize(
  ("of_second", "first", "second"),
  [
    (
      ["--config.train.steps=40"],
      r"error: process 1: train\.steps is 40 here and 60 in process 0; start all .*",
      r"error: train\.steps is 40 here and 60 in process 0; start all .*",
    ),
    (
      ["--workdir={other}"],
      r"error: process 1: --workdir is '.*/other' here and '.*/run' in process 0; start all .*",
      r"error: --workdir is '.*/other' here and '.*/run' in process 0; start all .*",
    ),
  ],
  ids=["config", "workdir"],
)
def test_a_mistake_in_one_process_ends_both(of_second, first, second, tmp_path):
  own = [argument.format(other=tmp_path / "other") for argument in of_second]
  both = start_two(SMALL, tmp_path / "run", of_second=own)
  ended = [finish(process) for process in both]
  assert [code for code, _, _ in ended] == [2, 2], ended
  for (_, _, stderr), line in zip(ended, (first, second), strict=True):
    assert re.fullmatch(line, stderr.splitlines()[-1]), stderr
    assert "Traceback" not in stderr
  assert not (tmp_path / "run" / "result.json").exists()


TWO_CELLS = """
from discipline_jax import defaults
from tests.testdata import tiny

def get_config():
  runs = {}
  for name, rate in (("bad", 1e30), ("good", 1e-3)):
    runs[name] = tiny.get_config()
    runs[name].replicas = 1
    runs[name].train.update(steps=4, learning_rate=rate, log_every_steps=1)
  return defaults.study(runs)
"""


@pytest.mark.slow
def test_a_study_goes_on_behind_a_run_that_fails_in_both(tmp_path):
  (tmp_path / "two_cells.py").write_text(TWO_CELLS)
  both = start_two(tmp_path / "two_cells.py", tmp_path / "study")
  ended = [finish(process) for process in both]
  assert [code for code, _, _ in ended] == [3, 3], ended
  assert "1 of 2 runs failed (bad; " in ended[0][2].splitlines()[-1], ended[0][2]
  assert (tmp_path / "study" / "good" / "result.json").exists()
  assert "bad" in json.loads((tmp_path / "study" / "failed.json").read_text())
