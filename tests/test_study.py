"""Studies: runs in order, a table, and a report."""

import json
import pathlib
import re

import pandas
import pytest

from discipline_jax.main import main
from tests.whole_runs import one_device

CONFIG = f"--config={pathlib.Path(__file__).parent / 'testdata' / 'tiny_study.py'}"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
  workdir = tmp_path_factory.mktemp("studies") / "study"
  with one_device():
    assert main(["main", CONFIG, f"--workdir={workdir}"]) == 0
  return workdir


def test_runs_and_result(study):
  result = json.loads((study / "result.json").read_text())
  assert result["mode"] == "study"
  assert list(result["runs"]) == ["before", "after", "scratch", "from_last"]
  for name, run in result["runs"].items():
    assert run == json.loads((study / name / "result.json").read_text())
  assert result["runs"]["from_last"]["model"] == f"{study}/after"
  assert result["runs"]["scratch"]["model"] == f"{study}/before@0"


def test_a_report_is_written(study):
  table = pandas.read_csv(study / "report" / "runs.csv")
  assert set(table["run"]) == {"before", "after", "scratch", "from_last"}
  assert "scratch/result.json" in (study / "report" / "index.html").read_text()


def test_a_finished_study_is_shown(study, capsys, monkeypatch):
  before = (study / "result.json").read_bytes()
  for mode in ("pretrain", "finetune"):
    monkeypatch.setattr(f"discipline_jax.{mode}._train", lambda *_: pytest.fail("it ran again"))
  assert main(["main", CONFIG, f"--workdir={study}"]) == 0
  lines = capsys.readouterr().out.splitlines()
  first = next(i for i, line in enumerate(lines) if line.startswith("run "))
  assert re.split("  +", lines[first]) == [
    "run",
    "validation",
    "test",
    "test, 95% interval",
    "best step",
  ]
  assert [line.split()[0] for line in lines[first + 1 : first + 3]] == ["scratch", "from_last"]
  result = json.loads(before)
  assert f"{result['runs']['scratch']['test']['mean']:.1f} ±" in lines[first + 1]
  assert (study / "result.json").read_bytes() == before


@pytest.mark.parametrize("content", ['{"mode": "finetune"}', "[]", "not JSON"])
def test_the_workdir_of_another_run_is_refused(content, tmp_path, capsys):
  (tmp_path / "result.json").write_text(content)
  assert main(["main", CONFIG, f"--workdir={tmp_path}"]) == 2
  assert str(tmp_path / "result.json") in capsys.readouterr().err
  assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_dry_run_and_mistakes(tmp_path, capsys):
  assert main(["main", CONFIG, f"--workdir={tmp_path / 'run'}", "--dry-run"]) == 0
  assert capsys.readouterr().out.splitlines()[1].split() == ["before", "pretrain", "missing"]
  arguments = [f"--workdir={tmp_path / 'run'}", "--config.runs.scratch.mode=predict"]
  assert main(["main", CONFIG, *arguments]) == 2
  assert (
    "runs.scratch.mode = 'predict' is not one of: pretrain, finetune" in capsys.readouterr().err
  )
  assert not (tmp_path / "run").exists()
