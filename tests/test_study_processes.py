"""Studies that are killed, and that several processes share; their runs do not train."""

import json
import os
import random
import time

import pytest

from discipline_jax import study as study_module
from discipline_jax.errors import RunFailed
from discipline_jax.files import leases
from discipline_jax.files.places import Path, place
from discipline_jax.files.whole_files import read_json
from discipline_jax.report.collect import collect
from discipline_jax.runs.workdir import Workdir
from discipline_jax.study import study
from tests import fake_runs
from tests.fake_runs import ended, example
from tests.forked import Process


def rows(workdir):
  """Returns the table of a study, without what differs between two folders and two times."""
  return collect(workdir).drop(columns=["seconds", "checkpoint"]).to_csv()


def start(workdir: Path, *arguments: str) -> Process:
  return Process("-m", "tests.fake_runs", str(workdir), *arguments)


def test_killed_at_random_moments(tmp_path, monkeypatch):
  """KILLS=10 makes more of them."""
  fake_runs.use(monkeypatch)
  workdir = tmp_path / "study"
  for _ in range(int(os.environ.get("KILLS", "2"))):
    process = start(workdir)
    while process.poll() is None and not (workdir / "study.json").exists():
      time.sleep(0.01)
    before = len(ended(workdir))
    while process.poll() is None and len(ended(workdir)) == before:
      time.sleep(0.005)
    time.sleep(random.uniform(0, fake_runs.PAUSE))
    process.kill()
    process.communicate()
  process = start(workdir)
  _, stderr = process.communicate()
  assert process.returncode == 0, stderr
  whole = tmp_path / "whole"
  study(example(), whole)
  assert rows(workdir) == rows(whole)
  assert len(set(ended(workdir))) == len(ended(workdir)), "a run ended twice"


def test_two_processes_share_a_study(tmp_path):
  both = [start(tmp_path) for _ in range(2)]
  for process in both:
    output = process.communicate()
    assert process.returncode == 0, output
  assert sorted(ended(tmp_path)) == ["a", "b", "c", "d", "pre"]
  assert len(collect(tmp_path)) == 2 * 4 + 1  # validation and test, and the pre-training


def test_two_processes_share_a_study_in_a_bucket(storage):
  both = [start(place("gs://bucket/s")) for _ in range(2)]
  for process in both:
    output = process.communicate()
    assert process.returncode == 0, output
  assert sorted(ended(place("gs://bucket/s"))) == ["a", "b", "c", "d", "pre"]
  assert list(json.loads(storage.buckets["bucket"]["s/result.json"].data)["runs"]) == [
    *"ac",
    "pre",
    *"bd",
  ]
  assert not [name for name in storage.names() if name.endswith("lock")]


def test_failures_and_the_lease_of_a_dead_process_in_a_bucket(storage, monkeypatch, capsys):
  """One of a process on another machine; the study waits until it was not renewed for a while."""
  fake_runs.use(monkeypatch)
  for name, seconds in (("_BEAT", 0.1), ("_DEAD", 1.0), ("_POLL", 0.05)):
    monkeypatch.setattr(leases, name, seconds)
  storage.put("bucket", "s/a/.lock", b'{"host": "elsewhere", "pid": 1, "token": "1"}')
  config = example()
  config.runs.pre.train.learning_rate = 1e30
  workdir = place("gs://bucket/s")
  with pytest.raises(RunFailed, match=r"1 of 5 .*\(pre; gs://bucket/s/failed.json .* 2 of 5 wait"):
    study(config, workdir)
  assert ended(workdir) == ["c", "a"]
  assert "other processes work on a;" in capsys.readouterr().out
  assert read_json(workdir / "failed.json") == {"pre": "the training loss is not finite"}
  for name in ("inputs.json", "config.json"):
    storage.buckets["bucket"].pop(f"s/pre/{name}")
  study(example(), workdir)
  assert ended(workdir) == ["c", "a", "pre", "b", "d"]
  assert "s/failed.json" not in storage.names()


def test_a_locked_run_is_passed_over_and_looked_at_again(tmp_path, capsys, monkeypatch):
  fake_runs.use(monkeypatch)
  config = example()
  cell = study_module.cells.plan_cells(config, tmp_path, study_module._MODES)["a"]
  other = Workdir(cell.workdir, cell.config)
  other.__enter__()
  pauses = []

  def pause(seconds):
    pauses.append(ended(tmp_path))
    if len(pauses) == 3:
      other.__exit__()

  monkeypatch.setattr(time, "sleep", lambda seconds: seconds and pause(seconds))
  study(config, tmp_path)
  assert pauses == [["c", "pre", "b", "d"]] * 3
  assert ended(tmp_path) == ["c", "pre", "b", "d", "a"]
  assert capsys.readouterr().out.count("other processes work on a;") == 1
