"""Tests a run over two processes, as on a pod of accelerators."""

import json

import numpy as np

from tests.whole_runs import SMALL, finish, start_two


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
