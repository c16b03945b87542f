"""Studies of runs that do not train: failures, moved folders, the choice of runs, what is said."""

import json
import signal

import jax
import pytest

from discipline_jax import defaults
from discipline_jax import study as study_module
from discipline_jax.errors import RunFailed, Stopped, UserError
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.runs.workdir import Workdir
from discipline_jax.study import study
from tests import fake_runs
from tests.fake_runs import ended, example, finetuning, pretraining


@pytest.fixture(autouse=True)
def _no_training(monkeypatch):
  fake_runs.use(monkeypatch)


def failed(workdir):
  path = workdir / "failed.json"
  return json.loads(path.read_text()) if path.exists() else None


def results(workdir):
  runs = json.loads((workdir / "result.json").read_text())["runs"]
  return {name: {**run, "seconds": 0} for name, run in runs.items()}


class TestFailures:
  def test_one_of_four_fails_and_the_next_start_tries_only_that(self, tmp_path, capsys):
    config = defaults.study({name: finetuning() for name in ("a", "b", "c", "d")})
    config.runs.b.train.learning_rate = 1e30
    with pytest.raises(RunFailed, match=rf"^1 of 4 runs failed \(b; {tmp_path}/failed.json"):
      study(config, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [
      [f"[{i}/4]", f"{name}:"] for i, name in enumerate("abcd", 1)
    ]
    assert lines[1] == "[2/4] b: failed, the training loss is not finite"
    assert failed(tmp_path) == {"b": "the training loss is not finite"}
    assert ended(tmp_path) == ["a", "c", "d"]
    tried = []
    real = fake_runs.run
    study_module._MODES["finetune"] = lambda *args, **kwargs: (
      tried.append(args[1].name),
      real(*args, **kwargs),
    )
    with pytest.raises(RunFailed, match="1 of 4"):
      study(config, tmp_path)
    assert tried == ["b"]
    assert "[1/4] a: finished before, test accuracy 50.0" in capsys.readouterr().out

  def test_a_mended_run_leaves_the_list(self, tmp_path):
    config = defaults.study({"a": finetuning(), "b": finetuning()})
    study_module._MODES["finetune"] = lambda *_, **__: (_ for _ in ()).throw(UserError("no file x"))
    with pytest.raises(RunFailed, match="2 of 2"):
      study(config, tmp_path)
    assert failed(tmp_path) == {"a": "no file x", "b": "no file x"}
    config.study.only = "a"
    study_module._MODES["finetune"] = fake_runs.run
    study(config, tmp_path)
    assert failed(tmp_path) == {"b": "no file x"}
    config.study.only = None
    study(config, tmp_path)
    assert failed(tmp_path) is None
    assert ended(tmp_path) == ["a", "b"]

  def test_what_starts_from_a_failed_run_waits(self, tmp_path, capsys):
    config = example()
    config.runs.pre.train.learning_rate = 1e30
    with pytest.raises(RunFailed, match=r"1 of 5 .*\(pre;.* 2 of 5 wait .*\(b, d\)"):
      study(config, tmp_path)
    assert "b: waiting, for pre" in capsys.readouterr().out
    assert list(failed(tmp_path)) == ["pre"]
    assert ended(tmp_path) == ["a", "c"]

  def test_no_memory_is_a_failure_and_other_errors_of_jax_are_bugs(self, tmp_path):
    def raises(text):
      def mode(*_, **__):
        raise jax.errors.JaxRuntimeError(text)

      return mode

    config = defaults.study({"a": finetuning(), "pre": pretraining()})
    study_module._MODES["finetune"] = raises("RESOURCE_EXHAUSTED: 5 GB\nmore lines")
    with pytest.raises(RunFailed, match="1 of 2"):
      study(config, tmp_path)
    assert "RESOURCE_EXHAUSTED: 5 GB)" in failed(tmp_path)["a"]
    study_module._MODES["finetune"] = raises("INTERNAL: no")
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL") as caught:
      study(config, tmp_path)
    assert caught.value.__notes__ == ["in the run a of the study"]

  @pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), Stopped(signal.SIGTERM, 3), ZeroDivisionError("a bug")]
  )
  def test_a_stop_and_a_bug_end_the_study(self, error, tmp_path):
    def mode(*_, **__):
      raise error

    study_module._MODES["finetune"] = mode
    with pytest.raises(type(error)):
      study(defaults.study({"a": finetuning(), "b": finetuning()}), tmp_path)
    assert failed(tmp_path) is None
    study_module._MODES["finetune"] = fake_runs.run
    study(defaults.study({"a": finetuning(), "b": finetuning()}), tmp_path)
    assert ended(tmp_path) == ["a", "b"]

  def test_a_finished_run_with_another_config_fails_alone(self, tmp_path):
    study(example(), tmp_path)
    config = example()
    config.runs.pre.seed = 7
    with pytest.raises(RunFailed, match=r"^1 of 5 .*\(pre;"):
      study(config, tmp_path)
    assert "seed is 7" in failed(tmp_path)["pre"]
    assert "set --config.runs.pre.seed=0 to go on" in failed(tmp_path)["pre"]
    assert str(tmp_path / "pre" / "config.json") in failed(tmp_path)["pre"]
    study(example(), tmp_path)
    assert failed(tmp_path) is None

  @pytest.mark.parametrize("content", ["", "[]", '{"mode": "predict"}', "\xff"])
  def test_a_broken_result_fails_alone_and_is_named(self, content, tmp_path):
    study(example(), tmp_path)
    path = tmp_path / "a" / "result.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(RunFailed, match=r"1 of 5 runs failed \(a;"):
      study(example(), tmp_path)
    assert str(path) in failed(tmp_path)["a"]
    path.unlink()  # the remedy
    study(example(), tmp_path)
    assert ended(tmp_path) == ["a", "c", "pre", "b", "d", "a"]

  @pytest.mark.parametrize("content", ["", "[]", '{"a": 3}'])
  def test_a_broken_list_of_failures_is_named(self, content, tmp_path):
    (tmp_path / "failed.json").write_text(content)
    with pytest.raises(UserError, match=f"{tmp_path}/failed.json"):
      study(example(), tmp_path)
    assert (tmp_path / "failed.json").read_text() == content


class TestFolder:
  def test_what_stands_beside_the_runs(self, tmp_path):
    study(example(), tmp_path / "study")
    assert json.loads((tmp_path / "study" / "study.json").read_text()) == {
      "cells": {
        "a": {"mode": "finetune", "labels": {"table": "3"}},
        **{name: {"mode": "finetune", "labels": {}} for name in ("b", "c", "d")},
        "pre": {"mode": "pretrain", "labels": {}},
      }
    }
    assert ended(tmp_path / "study") == ["a", "c", "pre", "b", "d"]

  def test_runs_may_be_added_and_dropped(self, tmp_path, capsys):
    config = example()
    study(config, tmp_path)
    runs = {name: run for name, run in config.runs.items() if name != "c"}
    study(defaults.study({**runs, "e": finetuning()}), tmp_path)
    assert ended(tmp_path)[5:] == ["e"]
    assert list(results(tmp_path)) == ["a", "e", "pre", "b", "d"]

  def test_a_moved_folder_goes_on(self, tmp_path):
    """Its runs start from a pre-training that has moved with them: its weights are compared, not its place."""
    old, new = tmp_path / "old", tmp_path / "new"
    config = example()
    config.study.only = "pre"
    study(config, old)
    for step in ("4", "9"):
      folder = old / "pre" / "steps" / step
      folder.mkdir(parents=True)
      (folder / "config.json").write_text(f'{{"of": {step}}}')
    config.study.only = "b"
    study(config, old)
    old.rename(new)
    config.study.only = None
    study(config, new)
    assert sorted(ended(new)) == ["a", "b", "c", "d", "pre"]
    config.runs.b.model.checkpoint = "pre@9"
    with pytest.raises(RunFailed, match=r"\(b;"):
      study(config, new)
    assert "model.checkpoint" in failed(new)["b"]

  def test_places_and_data_are_those_of_the_study(self, tmp_path):
    seen = {}

    def mode(config, workdir, *, is_cell):
      seen[workdir.name] = config
      fake_runs.run(config, workdir, is_cell=is_cell)

    study_module._MODES.update(finetune=mode, pretrain=mode)
    runs = {name: finetuning() for name in ("own", "start")}
    runs["own"].model.checkpoint = "mine"
    runs["start"].model.checkpoint = "pre@4"
    runs["pre"] = pretraining(**{"corpus.path": "{data_dir}/text"})
    config = defaults.study(runs, models={"mine": "org/name"})
    config.data_dir = str(tmp_path / "data")
    config.models.mine = "other/name"
    study(config, tmp_path)
    assert seen["own"].model.checkpoint == "other/name"
    assert seen["start"].model.checkpoint == f"{tmp_path}/pre@4"
    assert seen["start"].data_dir == str(tmp_path / "data")
    assert seen["pre"].corpus.path == f"{tmp_path}/data/text"

  def test_places_in_a_bucket(self, storage):
    config = example()
    config.data_dir = "gs://bucket/data"
    config.runs.pre.corpus.path = "{data_dir}/text"
    found = study_module.cells.plan_cells(config, place("gs://bucket/s"), study_module._MODES)
    assert found["pre"].config.corpus.path == "gs://bucket/data/text"
    assert found["b"].config.model.checkpoint == "gs://bucket/s/pre@4"


class TestChoice:
  def test_only_takes_the_runs_before_along(self, tmp_path):
    config = example()
    config.study.only = "[bc]"
    study(config, tmp_path)
    assert ended(tmp_path) == ["c", "pre", "b"]

  def test_shards_share_the_runs(self, tmp_path):
    config = example()
    config.study.shard = "2/2"  # c and b, of a, c, pre, b, d
    with pytest.raises(RunFailed, match=r"1 of 2 wait .*\(b\)"):
      study(config, tmp_path)
    config.study.shard = "1/2"
    study(config, tmp_path)
    config.study.shard = "2/2"
    study(config, tmp_path)
    assert ended(tmp_path) == ["c", "a", "pre", "d", "b"]
    assert list(results(tmp_path)) == ["a", "c", "pre", "b", "d"], "with those of the other shard"
    (tmp_path / "a" / "result.json").write_text("{")
    study(config, tmp_path)
    assert list(results(tmp_path)) == ["c", "pre", "b", "d"]

  @pytest.mark.parametrize("shard", ["3/2", "0/2", "1", "a/b", "-1/2", "1/0", ""])
  def test_a_wrong_shard(self, shard, tmp_path):
    config = example()
    config.study.shard = shard
    with pytest.raises(UserError, match=f"study.shard = '{shard}'"):
      study(config, tmp_path / "study")
    assert not (tmp_path / "study").exists()

  def test_a_pattern_without_a_match_names_runs(self, tmp_path):
    config = example()
    config.study.only = "x*"
    with pytest.raises(UserError, match=r"study.only = 'x\*' .*: a, c, pre, b, d;"):
      study(config, tmp_path / "study")
    assert not (tmp_path / "study").exists()

  def test_runs_that_start_from_each_other(self, tmp_path):
    config = example()
    config.runs.pre.model.checkpoint = "b"
    with pytest.raises(UserError, match="the runs b, d, pre start from each other"):
      study(config, tmp_path / "study")
    assert not (tmp_path / "study").exists()

  @pytest.mark.parametrize("name", ["a/b", "", "a b", "-a", "/a"])
  def test_a_name_that_is_no_folder(self, name, tmp_path):
    with pytest.raises(UserError, match="runs"):
      study(defaults.study({name: finetuning()}), tmp_path / "study")
    assert not (tmp_path / "study").exists()


class TestDryRun:
  def overview(self, config, workdir, capsys):
    capsys.readouterr()
    study(config, workdir, dry_run=True)
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line.split()[2:] for line in lines[1:-2]}, lines[-1]

  def test_a_new_study(self, tmp_path, capsys):
    rows, last = self.overview(example(), tmp_path / "study", capsys)
    assert rows == {
      **{name: ["missing"] for name in ("a", "c", "pre")},
      **{name: ["waiting", "for", "pre"] for name in ("b", "d")},
    }
    assert last == "5 runs: 2 waiting, 3 missing; time left: unknown"
    assert not (tmp_path / "study").exists()

  def test_each_state(self, tmp_path, capsys):
    config = example()
    config.runs.a.train.learning_rate = 1e30
    with pytest.raises(RunFailed):
      study(config, tmp_path)
    (tmp_path / "b" / "result.json").write_text("{")
    (tmp_path / "c" / "result.json").unlink()
    (tmp_path / "c" / "checkpoints" / "7").mkdir(parents=True)
    (tmp_path / "d" / "result.json").unlink()
    before = sorted(path for path in tmp_path.rglob("*"))
    with Workdir(
      tmp_path / "d",
      study_module.cells.plan_cells(config, tmp_path, study_module._MODES)["d"].config,
    ):
      rows, last = self.overview(config, tmp_path, capsys)
    assert rows["a"] == ["failed", "the", "training", "loss", "is", "not", "finite"]
    assert rows["b"][0] == "broken"
    assert f"{tmp_path}/b/result.json;" in rows["b"]
    assert rows["c"] == ["stopped", "step", "7"]
    assert rows["d"] == ["running", "step", "0"]
    assert rows["pre"] == ["finished"]
    assert last.startswith(
      "5 runs: 1 finished, 1 broken, 1 running, 1 failed, 1 stopped; time left:"
    )
    assert sorted(path for path in tmp_path.rglob("*")) == before

  def test_what_has_not_begun_copies_no_weights_from_a_bucket(self, storage, capsys):
    config, workdir = example(), place("gs://bucket/s")
    config.study.only = "pre"
    study(config, workdir)
    for name in ("config.json", "model.safetensors"):
      storage.put("bucket", f"s/pre/steps/4/{name}", b"{}")
    config.study.only = None
    rows, _ = self.overview(config, workdir, capsys)
    assert (rows["pre"], rows["b"]) == (["finished"], ["missing"])
    assert not copies.local(workdir / "pre" / "steps").exists()
