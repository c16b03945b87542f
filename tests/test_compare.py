"""Comparisons: which runs they make, what they conclude, and what stops them. One of them trains."""

import html
import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from absl import logging

from discipline_jax import report
from discipline_jax.compare import _settings
from discipline_jax.main import main
from discipline_jax.programs import timing
from discipline_jax.programs.baselines import Baseline
from discipline_jax.programs.timing import Speed
from discipline_jax.report.collect import collect
from tests.fake_finetuning import FakeFinetuning
from tests.testdata.small_files import write_weights
from tests.whole_runs import one_device

CONFIG = pathlib.Path(__file__).parent / "testdata" / "tiny_compare.py"
RUNS = [
  f"{init}_{name}"
  for init in ("pretrained", "scratch")
  for name in ("try_0.001", "try_0.01", "0.01")
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  return write_weights(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def compare(checkpoint, tmp_path, monkeypatch):
  """Runs the comparison in `tmp_path / run` without training: (shares, arguments) -> (exit code, runs that it ran)."""
  monkeypatch.setattr(timing, "measure_speed", lambda _: Speed(1, 1, 1, 1))
  monkeypatch.setattr(report, "write", lambda _: None)

  def run(shares, *arguments):
    fake = FakeFinetuning(shares)
    monkeypatch.setattr("discipline_jax.comparison.trials.finetune", fake)
    given = [f"--config={CONFIG}", f"--config.model.checkpoint={checkpoint}"]
    with one_device():
      code = main(["main", *given, f"--workdir={tmp_path / 'run'}", *arguments])
    return code, fake.ran

  return run


def better_pretrained(config, seed):
  rate = 0.0 if config.train.learning_rate == 0.01 else 0.1
  return 0.9 - rate - 0.01 * seed - (0.3 if config.model.init == "scratch" else 0)


def result_of(folder):
  return json.loads((folder / "run" / "result.json").read_text())


def test_each_init_goes_on_at_its_best_rate(compare, tmp_path, capsys):
  def shares(config, seed):
    best = {"pretrained": 0.001, "scratch": 0.01}[config.model.init]
    return 0.8 - 0.01 * seed - 0.2 * (config.train.learning_rate != best)

  code, ran = compare(shares)
  output = capsys.readouterr()
  assert code == 0, output.err
  assert ran == [
    *("pretrained_try_0.001", "pretrained_try_0.01", "pretrained_0.001"),
    *("scratch_try_0.001", "scratch_try_0.01", "scratch_0.01"),
  ]
  result = result_of(tmp_path)
  assert result["seeds"] == [0, 1, 2]
  assert result["rates"]["pretrained"] == pytest.approx({"0.001": 80.0, "0.01": 60.0}, abs=1)
  for init, name in result["workdirs"].items():
    scores = json.loads((tmp_path / "run" / name / "result.json").read_text())["test"]["runs"]
    assert result["candidates"][init]["test"]["runs"] == pytest.approx(scores)
    config = json.loads((tmp_path / "run" / name / "config.json").read_text())
    assert (config["seed"], config["replicas"], config["train"]["steps"]) == (0, 3, 6)
    assert config["eval"]["every_steps"] == 3
    assert config["mode"] == "finetune"
  assert "rate 0.001 of 0.001, 0.01" in output.out
  assert any("lower rates are better for pretrained" in one for one in result["limits"])
  assert any("higher rates are better for scratch" in one for one in result["limits"])


def test_a_warning_that_each_training_gives_is_shown_once(compare, caplog):
  def shares(config, seed):
    logging.warning("a part is small")
    logging.warning("the rate is %g", config.train.learning_rate)
    return better_pretrained(config, seed)

  assert compare(shares) == (0, RUNS)
  warnings = [one for one in caplog.messages if one.startswith(("a part", "the rate"))]
  assert warnings == ["a part is small", "the rate is 0.001", "the rate is 0.01"]
  logging.warning("a part is small")
  assert caplog.messages.count("a part is small") == 2, "after the comparison nothing is left out"


def test_a_finished_one_is_shown_and_an_unfinished_one_goes_on(compare, tmp_path, capsys):
  assert compare(better_pretrained) == (0, RUNS)
  shown = capsys.readouterr().out
  assert compare(better_pretrained) == (0, [])
  table = shown[shown.index("\ndna_planted") :]
  assert capsys.readouterr().out == table
  before = (tmp_path / "run" / "result.json").read_text()
  (tmp_path / "run" / "result.json").unlink()
  shutil.rmtree(tmp_path / "run" / ".trials" / "scratch_try_0.001")
  assert compare(better_pretrained) == (0, ["scratch_try_0.001"])
  ours, theirs = result_of(tmp_path), json.loads(before)
  assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}


def test_in_a_bucket(compare, storage, capsys):
  there = "--workdir=gs://bucket/run"
  assert compare(better_pretrained, there) == (0, RUNS)
  result = json.loads(storage.buckets["bucket"]["run/result.json"].data)
  assert result["workdirs"] == {"pretrained": "pretrained_0.01", "scratch": "scratch_0.01"}
  assert result["candidates"]["pretrained"]["test"]["mean"] == pytest.approx(89, abs=1)
  assert storage.names("run/.trials/scratch_try_0.001/predictions")
  shown = capsys.readouterr().out
  assert compare(better_pretrained, there) == (0, [])
  assert capsys.readouterr().out == shown[shown.rindex("\ndna_planted") :]
  assert "are in gs://bucket/run/pretrained_0.01, for" in shown


def test_what_it_says(compare, tmp_path, capsys):
  assert compare(better_pretrained)[0] == 0
  out = capsys.readouterr().out
  result = result_of(tmp_path)
  assert list(result["candidates"]) == ["pretrained", "scratch", "constant", "linear"]
  assert "So pre-training helps" in out
  assert all(sentence in out for sentence in (*result["sentences"], *result["limits"]))
  assert f"{tmp_path / 'run' / 'pretrained_0.01'}" in out
  scores = {name: one["test"]["mean"] for name, one in result["candidates"].items()}
  assert scores["pretrained"] == pytest.approx(89, abs=1)
  assert scores["constant"] == pytest.approx(100 / 3, abs=8)
  [lead] = [
    one
    for one in result["differences"]
    if (one["first"], one["second"]) == ("pretrained", "scratch")
  ]
  assert lead["mean"] == pytest.approx(scores["pretrained"] - scores["scratch"])


def test_a_rate_at_which_the_loss_is_not_finite_is_left_out(compare, tmp_path, capsys):
  """At 0.01 it happens with another seed than the first, and the second best rate takes its place."""

  def shares(config, seed):
    if config.model.init == "scratch" and config.train.learning_rate == 0.01 and seed == 2:
      return None
    return better_pretrained(config, seed)

  assert compare(shares)[0] == 0, capsys.readouterr().err
  result = result_of(tmp_path)
  assert result["workdirs"]["scratch"] == "scratch_0.001"
  assert result["rates"]["scratch"]["0.01"] is None
  assert any("scratch can do: its loss was not finite at some" in one for one in result["limits"])


def test_an_init_that_fails_at_all_rates_and_a_comparison_that_does(compare, tmp_path, capsys):
  def shares(config, seed):
    return None if config.model.init == "scratch" else better_pretrained(config, seed)

  assert compare(shares)[0] == 0, capsys.readouterr().err
  result = result_of(tmp_path)
  assert list(result["candidates"]) == ["pretrained", "constant", "linear"]
  assert any("scratch can do: its loss was not finite at all" in one for one in result["limits"])
  shutil.rmtree(tmp_path / "run")
  assert compare(lambda *_: None)[0] == 3
  assert "compare.rates" in capsys.readouterr().err
  assert not (tmp_path / "run" / "result.json").exists()


def test_the_time_is_said_and_kept(compare, tmp_path, capsys):
  """6 updates take 1 + 6 + 2 + 1 s, 3 take 6 s: 2 * (2 * 6 + 2 * 10) s with two seeds."""
  assert compare(better_pretrained, "--config.compare.minutes=1.4")[0] == 0
  out = capsys.readouterr().out
  assert re.search(
    r"about 1\.\d+ minutes at 1 updates a second: .* with 2 seeds for 6 updates", out
  )
  result = result_of(tmp_path)
  assert result["seeds"] == [0, 1]
  assert any("2 seeds in place of 3" in one for one in result["limits"])
  assert any("tried for half of the updates" in one for one in result["limits"])
  trial = json.loads(
    (tmp_path / "run" / ".trials" / "scratch_try_0.01" / "config.json").read_text()
  )
  assert (trial["replicas"], trial["train"]["steps"]) == (1, 3)
  plan = json.loads((tmp_path / "run" / "plan.json").read_text())
  assert plan["grid"]["seeds"] == 2
  assert plan["minutes"] == pytest.approx(68 / 60, abs=0.2)


def test_dry_run_writes_nothing(compare, tmp_path, capsys):
  assert compare(better_pretrained, "--dry-run") == (0, [])
  out = capsys.readouterr().out
  assert (
    "pretrained, scratch, each at 0.001, 0.01 with one seed, and at its best rate with 3" in out
  )
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
  ("argument", "expected"),
  [
    ("task.name=None", "task.name is not set"),
    ("task.name=custom", "task.path is not set"),
    ("replicas=1", "replicas = 1"),
    ("compare.rates=()", "compare.rates is empty"),
    ("compare.rates=(0.001,0.001)", "names one twice"),
    ("compare.rates=(0.001,-1.0)", "compare.rates has -1.0"),
    ("compare.inits=()", "compare.inits is empty"),
    ("compare.inits=('warm',)", "compare.inits = 'warm' is not one of: "),
    ("compare.minutes=-1", "compare.minutes = -1.0"),
    (
      "compare.minutes=0.5",
      "compare.minutes = 0.5 is too few: 2 inits, each at 2 rates and with 2 seeds for 6",
    ),
    ("model.checkpoint=None", "needs --config.model.checkpoint"),
    ("model.init=scratch", "set --config.compare.inits"),
    ("train.learning_rate=0.1", "set --config.compare.rates"),
    ("eval.every_steps=0", "eval.every_steps = 0 is less than 1"),
  ],
)
def test_mistakes(argument, expected, compare, tmp_path, capsys):
  assert compare(better_pretrained, f"--config.{argument}") == (2, [])
  error = capsys.readouterr().err.splitlines()[-1]
  assert error.startswith("error: ")
  assert expected in error
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
  ("settings", "expected"),
  [
    (
      [
        "9 symbols around; penalty 1",
        "9 symbols around; penalty 10",
        "9 symbols around; penalty 1",
      ],
      "9 symbols around; penalty 1, 10",
    ),
    (["penalty 0.1 (not converged)", "penalty 1"], "penalty 0.1 (not converged), 1"),
    (["always a", "always b", "always a"], "always a, always b"),
  ],
)
def test_the_settings_of_all_seeds(settings, expected):
  assert _settings([Baseline(one, {}, {}, {}) for one in settings]) == expected


def test_one_test_sample(compare, tmp_path, capsys):
  path = tmp_path / "mine.csv"
  path.write_text("sequence,label\n" + "".join(f"ACGT{'AC' * i},{i % 2}\n" for i in range(12)))
  arguments = ("--config.task.name=custom", "--config.task.train_fraction=1.0")
  arguments += (f"--config.task.path={path}", "--config.train.batch_size=4")
  assert compare(better_pretrained, *arguments) == (2, [])
  assert "the validation part has 1 sample" in capsys.readouterr().err
  assert not (tmp_path / "run").exists()


def test_another_config_in_the_same_workdir_is_refused(compare, capsys):
  assert compare(better_pretrained)[0] == 0
  assert compare(better_pretrained, "--config.compare.rates=(0.001,)") == (2, [])
  assert "compare.rates" in capsys.readouterr().err


def test_it_trains(checkpoint, tmp_path, monkeypatch, capsys):
  """The speed is measured, and what the runs predict is what is compared."""
  monkeypatch.setattr(timing, "_MOST", 5)
  given = [f"--config={CONFIG}", f"--config.model.checkpoint={checkpoint}"]
  given += ["--config.compare.inits=('pretrained',)", "--config.compare.rates=(0.001,)"]
  with one_device():
    code = main(["main", *given, "--config.replicas=2", f"--workdir={tmp_path / 'run'}"])
  output = capsys.readouterr()
  assert code == 0, output.err
  assert re.search(r"about [\d.]+ minutes at [\d.]+ updates a second", output.out)
  plan = json.loads((tmp_path / "run" / "plan.json").read_text())
  assert all(seconds > 0 for seconds in plan["speed"].values())
  assert plan["grid"]["trial_steps"] == plan["grid"]["steps"] == 6
  result = result_of(tmp_path)
  assert result["mode"] == "compare"
  rows = collect(tmp_path / "run").query("part == 'test'")
  assert rows["run"].tolist() == ["pretrained_0.001"]
  assert rows["mean"].tolist() == pytest.approx(
    [result["candidates"]["pretrained"]["test"]["mean"]]
  )
  page = tmp_path / "run" / "report" / "index.html"
  shown = html.unescape(page.read_text())
  for text in (*result["sentences"], *result["limits"]):
    assert text in shown, "the page says what the terminal says"
    assert text in output.out
  page.unlink()
  with one_device():
    assert main(["main", *given, "--config.replicas=2", f"--workdir={tmp_path / 'run'}"]) == 0
  assert html.unescape(page.read_text()) == shown, "as after a kill between the result and the page"
  file = tmp_path / "run" / "pretrained_0.001" / "predictions.npz"
  predicted = np.load(file, allow_pickle=False)
  right = 100 * (predicted["test.labels"] == predicted["test.predicted"]).mean(1)
  assert result["candidates"]["pretrained"]["test"]["runs"] == pytest.approx(right.tolist())
