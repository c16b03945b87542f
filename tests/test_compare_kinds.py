"""Comparisons of answers about positions, of several labels, of pairs and of windows; nothing is trained but in one."""

import html
import json
import pathlib
import random
import re

import numpy as np
import pytest

from discipline_jax import report
from discipline_jax.main import main
from discipline_jax.metrics import resampled
from discipline_jax.programs import timing
from discipline_jax.programs.timing import Speed
from discipline_jax.report.verdicts import read_verdicts
from tests.fake_finetuning import FakeFinetuning
from tests.testdata.small_files import write_weights
from tests.whole_runs import one_device

CONFIG = pathlib.Path(__file__).parent / "testdata" / "tiny_compare.py"
draw = random.Random(3)
SEQUENCES = ["".join(draw.choices("ACGT", k=draw.randint(4, 30))) for _ in range(240)]
TABLES = {
  "tagging": lambda one: "".join({"A": "h", "C": "s", "G": "s", "T": "x"}[x] for x in one),
  "position_regression": lambda one: " ".join({"A": "1", "T": "nan"}.get(x, "2.5") for x in one),
  "multilabel": lambda one: ";".join(sorted({*one[:2]})),
  "classification": lambda one: "yn"[one.count("A") % 2],
  "regression": lambda one: str(one.count("A") - len(one)),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  return write_weights(tmp_path_factory.mktemp("models") / "model")


def flags(kind, checkpoint, folder, *arguments, sequences=SEQUENCES):
  rows = "".join(f"{one},{TABLES[kind](one)}\n" for one in sequences)
  (folder / "mine.csv").write_text("sequence,label\n" + rows)
  return [
    *("main", f"--config={CONFIG}", f"--config.model.checkpoint={checkpoint}"),
    *("--config.task.name=custom", f"--config.task.path={folder / 'mine.csv'}"),
    *(f"--config.task.kind={kind}", "--config.task.train_fraction=1.0"),
    *("--config.train.batch_size=8", f"--workdir={folder / 'run'}", *arguments),
  ]


@pytest.fixture
def compare(checkpoint, tmp_path, monkeypatch, capsys):
  """Compares without training: (kind, arguments) -> (result, what is printed)."""
  monkeypatch.setattr(timing, "measure_speed", lambda _: Speed(1, 1, 1, 1))
  monkeypatch.setattr(report, "write", lambda _: None)

  def share(config, seed):
    worse = 0.4 * (config.model.init == "scratch") + 0.1 * (config.train.learning_rate == 0.01)
    return 0.9 - worse - 0.1 * seed

  def run(kind, *arguments, **table):
    monkeypatch.setattr("discipline_jax.comparison.trials.finetune", FakeFinetuning(share))
    with one_device():
      code = main(flags(kind, checkpoint, tmp_path, *arguments, **table))
    output = capsys.readouterr()
    assert code == 0, output.err
    return json.loads((tmp_path / "run" / "result.json").read_text()), output.out

  return run


MASKED = "--config.task.ignore_label=x"
WINDOWS = ("--config.task.long=windows", "--config.task.max_length=14")
CASES = {
  "tags": ("tagging", (MASKED,)),
  "tags in windows": ("tagging", (MASKED, *WINDOWS)),
  "values of positions": ("position_regression", ()),
  "values in windows": ("position_regression", WINDOWS),
  "several labels": ("multilabel", ()),
  "labels in windows": ("multilabel", WINDOWS),
  "classes in windows": ("classification", WINDOWS),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends_in_the_same_sentences(case, compare, tmp_path):
  kind, arguments = CASES[case]
  result, out = compare(kind, *arguments)
  of_positions = kind in ("tagging", "position_regression")
  simple = ["constant", *["symbol"] * of_positions, "linear"]
  assert list(result["candidates"]) == ["pretrained", "scratch", *simple]
  first = result["sentences"][0]
  assert re.search(r"12 test samples .*in each of 3 seeds \(", first)
  assert all(sentence in out for sentence in (*result["sentences"], *result["limits"]))
  (verdict,), notes = read_verdicts(tmp_path / "run")
  assert not notes
  assert [row[0] for row in verdict.table[1:]] == list(result["candidates"])
  with np.load(tmp_path / "run" / result["workdirs"]["pretrained"] / "predictions.npz") as file:
    units, labels, predicted = (file[f"test.{name}"] for name in ("units", "labels", "predicted"))
  once = np.ones((1, units.shape[1]), int)
  scores = [
    resampled(result["metric"], *one, once)[0] for one in zip(labels, predicted, strict=True)
  ]
  assert result["candidates"]["pretrained"]["test"]["runs"] == pytest.approx(scores)
  if of_positions:
    scored = [sum(len(SEQUENCES[i].replace("T", "")) for i in own) for own in units]
    assert f"({min(scored):,} to {max(scored):,} scored positions" in first
    setting = result["candidates"]["linear"]["setting"]
    assert re.match(r"10 symbols around; penalty [\d.]+( \(not converged\))?(, \d|$)", setting)
    symbol = result["candidates"]["symbol"]["test"]["mean"]
    assert symbol == pytest.approx(100)
    assert "No network is better than one answer for each symbol" in out
    assert not any("behind the first" in one for one in result["limits"])
  else:
    assert "scored positions" not in out


def test_cut_sequences_are_scored_as_far_as_they_are_read(compare):
  """With T left out too, the positions in the sentence are those within 12 symbols."""
  result, _ = compare("tagging", MASKED, "--config.task.max_length=14")
  low, high = re.search(r"([\d,]+) to ([\d,]+) scored", result["sentences"][0]).groups()
  assert 0 < int(low) <= int(high) < 12 * 12
  longest = sum(len(one) >= 12 for one in SEQUENCES)
  assert any(f"first 12 symbols: {longest} sequences have" in one for one in result["limits"])


def test_pairs(compare, tmp_path):
  """Pairs are two columns; the linear model counts them side by side."""
  halves = [(one[: len(one) // 2], one[len(one) // 2 :]) for one in SEQUENCES]
  result, out = compare(
    "classification",
    f"--config.task.path={pairs_table(tmp_path / 'pairs.csv', halves)}",
    "--config.task.sequence_column=first,second",
  )
  assert list(result["candidates"]) == ["pretrained", "scratch", "constant", "linear"]
  assert "12 test samples in each of 3 seeds" in out
  assert any("how pairs of two new sequences would do" in one for one in result["limits"])


def pairs_table(path, pairs):
  rows = "".join(f"{a},{b},{'ny'[len(a) > 8]}\n" for a, b in pairs)
  path.write_text("first,second,label\n" + rows)
  return path


def test_one_sequence_in_several_windows_is_one_sample(checkpoint, tmp_path, capsys):
  """The test part has one sequence, in several windows: nothing can be resampled."""
  sequences = ["ACGT" * 7 for _ in range(12)]
  arguments = flags("tagging", checkpoint, tmp_path, MASKED, *WINDOWS, sequences=sequences)
  with one_device():
    assert main(arguments) == 2
  assert "the validation part has 1 sample" in capsys.readouterr().err
  assert not (tmp_path / "run").exists()


def test_pairs_in_windows_cannot_be(checkpoint, tmp_path, capsys):
  pairs_table(tmp_path / "pairs.csv", [("ACGT" * (1 + i % 3), "ACG") for i in range(40)])
  arguments = flags("classification", checkpoint, tmp_path, *WINDOWS)
  arguments += [f"--config.task.path={tmp_path / 'pairs.csv'}"]
  arguments += ["--config.task.sequence_column=first,second"]
  with one_device():
    assert main(arguments) == 2
  assert "set --config.task.long=cut" in capsys.readouterr().err.splitlines()[-1]


def test_it_trains_on_tags(checkpoint, tmp_path, monkeypatch, capsys):
  """The networks' predictions and the baselines' are laid side by side, and the page has the answer."""
  monkeypatch.setattr(timing, "_MOST", 5)
  arguments = flags("tagging", checkpoint, tmp_path, MASKED, *WINDOWS, sequences=SEQUENCES[:80])
  arguments += ["--config.compare.inits=('pretrained',)", "--config.compare.rates=(0.001,)"]
  with one_device():
    code = main([*arguments, "--config.replicas=2", "--config.train.steps=4"])
  output = capsys.readouterr()
  assert code == 0, output.err
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  page = html.unescape((tmp_path / "run" / "report" / "index.html").read_text())
  for text in (*result["sentences"], *result["limits"]):
    assert text in page
    assert text in output.out
