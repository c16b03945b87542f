"""Searches: which candidates go on, what they cost, and what stops them. One of them trains."""

import json
import pathlib

import pytest

from discipline_jax.main import main
from tests.fake_finetuning import FakeFinetuning
from tests.testdata.small_files import write_weights
from tests.whole_runs import one_device

CONFIG = f"--config={pathlib.Path(__file__).parent / 'testdata' / 'tiny_search.py'}"
OPTIMIZERS = ("adam", "adagrad", "adamax", "radam", "novograd")


@pytest.fixture
def search(tmp_path, monkeypatch):
  """Runs the search in `tmp_path / run` without training: (shares, arguments) -> (exit code, runs that it ran)."""

  def run(shares, *arguments):
    fake = FakeFinetuning(shares)
    monkeypatch.setattr("discipline_jax.comparison.trials.finetune", fake)
    with one_device():
      code = main(["main", CONFIG, f"--workdir={tmp_path / 'run'}", *arguments])
    return code, fake.ran

  return run


def share(config, seed):
  """Makes Adam at 1e-3 the best, and novograd at 1e-2 the next."""
  choice = (config.train.optimizer, config.train.learning_rate)
  return {("adam", 1e-3): 0.9, ("novograd", 1e-2): 0.8}.get(choice, 0.5)


def result_of(folder):
  return json.loads((folder / "run" / "result.json").read_text())


def test_halving(search, tmp_path, capsys):
  code, ran = search(share)
  assert code == 0, capsys.readouterr().err
  first = [
    f"scratch_{name}_{rate}_4" for name in ("adam", "novograd") for rate in ("0.001", "0.01")
  ]
  assert ran == [*first, "scratch_adam_0.001_8", "scratch_novograd_0.01_8"]
  result = result_of(tmp_path)
  found = result["inits"]["scratch"]
  assert (found["winner"]["optimizer"], found["winner"]["rate"]) == ("adam", 1e-3)
  assert found["winner"]["test"]["mean"] == pytest.approx(90, abs=1)
  assert [rung["steps"] for rung in found["rungs"]] == [4, 8]
  assert (result["updates"], result["updates_of_full_grid"]) == (4 * 4 + 2 * 8, 4 * 8)
  for rung in found["rungs"]:
    for row in rung["runs"]:
      config = json.loads((tmp_path / "run" / row["workdir"] / "config.json").read_text())
      assert config["train"]["steps"] == rung["steps"]
      assert config["train"]["optimizer"] == row["optimizer"]
      assert config["train"]["learning_rate"] == row["rate"]


def test_the_full_search_costs_less_than_two_fifths_of_the_grid(search, tmp_path, capsys):
  """Five optimizers, three rates, 180 updates: 15 x 20 + 5 x 60 + 2 x 180 = 960 of 2,700."""
  arguments = [
    f"--config.search.optimizers={OPTIMIZERS}",
    "--config.search.rates=(0.0001,0.001,0.01)",
    "--config.search.rungs=3",
    "--config.search.factor=3",
    "--config.train.steps=180",
  ]
  assert search(share, *arguments, "--dry-run") == (0, [])
  out = capsys.readouterr().out
  assert "15 for 20 updates, then 5 for 60 updates, then 2 for 180 updates" in out
  assert "960 updates, 36% of the full grid" in out
  assert not (tmp_path / "run").exists()
  assert len(search(share, *arguments)[1]) == 15 + 5 + 2
  result = result_of(tmp_path)
  assert result["updates"] / result["updates_of_full_grid"] == 960 / 2700
  assert "960 updates, 36% of the full grid" in capsys.readouterr().out


def test_equal_scores_are_ranked_by_their_loss(search, tmp_path, capsys):
  losses = {"adam": 2.0, "novograd": 1.0}
  code, _ = search(lambda *_: 0.5)
  assert code == 0, capsys.readouterr().err
  # The fake's losses are equal, too, so the order is that of the config; now novograd's are lower.
  assert result_of(tmp_path)["inits"]["scratch"]["winner"]["optimizer"] == "adam"
  for path in (tmp_path / "run").glob("*/metrics.jsonl"):
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"loss": losses[path.parent.name.split("_")[1]]}) + "\n")
  (tmp_path / "run" / "result.json").unlink()
  assert search(lambda *_: 0.5)[0] == 0
  assert result_of(tmp_path)["inits"]["scratch"]["winner"]["optimizer"] == "novograd"


def test_each_init_has_its_own_winner(search, tmp_path, capsys):
  def shares(config, seed):
    best = {"pretrained": 1e-3, "scratch": 1e-2}[config.model.init]
    return 0.9 if config.train.learning_rate == best else 0.6

  model = write_weights(tmp_path / "model")
  arguments = [
    "--config.search.inits=('pretrained','scratch')",
    f"--config.model.checkpoint={model}",
    *(f"--config.model.config.{name}=None" for name in SIZES),
  ]
  code, _ = search(shares, *arguments)
  assert code == 0, capsys.readouterr().err
  winners = {init: found["winner"]["rate"] for init, found in result_of(tmp_path)["inits"].items()}
  assert winners == {"pretrained": 1e-3, "scratch": 1e-2}


SIZES = (
  "vocab_size",
  "hidden_size",
  "num_hidden_layers",
  "num_attention_heads",
  "intermediate_size",
  "max_position_embeddings",
)


def test_candidates_whose_loss_is_not_finite_do_not_go_on(search, tmp_path, capsys):
  code, ran = search(lambda config, seed: None if config.train.optimizer == "adam" else 0.5)
  assert code == 0, capsys.readouterr().err
  assert [name for name in ran if name.endswith("_8")] == [
    "scratch_novograd_0.001_8",
    "scratch_novograd_0.01_8",
  ]
  first = result_of(tmp_path)["inits"]["scratch"]["rungs"][0]["runs"]
  assert [row["validation"] is None for row in first] == [False, False, True, True]


def test_no_candidate_is_finite(search, tmp_path, capsys):
  assert search(lambda *_: None) == (3, [])
  assert "search.rates" in capsys.readouterr().err
  assert not (tmp_path / "run" / "result.json").exists()


def test_a_finished_search_is_shown_and_a_stopped_one_goes_on(search, tmp_path, capsys):
  assert len(search(share)[1]) == 6
  shown = capsys.readouterr().out
  assert search(share) == (0, [])
  assert capsys.readouterr().out == shown[shown.index("\ndna_planted") :]
  (tmp_path / "run" / "result.json").unlink()
  (tmp_path / "run" / "scratch_novograd_0.01_8" / "result.json").unlink()
  assert search(share) == (0, ["scratch_novograd_0.01_8"])


def test_in_a_bucket(search, storage):
  there = "--workdir=gs://bucket/run"
  assert len(search(share, there)[1]) == 6
  result = json.loads(storage.buckets["bucket"]["run/result.json"].data)
  assert result["inits"]["scratch"]["winner"]["workdir"] == "scratch_adam_0.001_8"
  storage.buckets["bucket"].pop("run/result.json")
  storage.buckets["bucket"].pop("run/scratch_novograd_0.01_8/result.json")
  assert search(share, there) == (0, ["scratch_novograd_0.01_8"])


@pytest.mark.parametrize(
  ("argument", "expected"),
  [
    ("search.optimizers=('sgd',)", "search.optimizers = 'sgd' is not one of: adam"),
    ("search.optimizers=()", "search.optimizers is empty"),
    ("search.rates=()", "search.rates is empty"),
    ("search.rates=(0.0,)", "search.rates has 0.0"),
    ("search.inits=('pretrained',)", "needs --config.model.checkpoint"),
    ("search.rungs=0", "search.rungs = 0 is less than 1"),
    ("search.factor=1", "search.factor = 1 is less than 2"),
    ("search.rungs=9", "leave less than an update of 8"),
    ("train.optimizer=radam", "set --config.search.optimizers"),
    ("train.learning_rate=0.1", "set --config.search.rates"),
  ],
)
def test_mistakes(argument, expected, search, tmp_path, capsys):
  assert search(share, f"--config.{argument}") == (2, [])
  error = capsys.readouterr().err.splitlines()[-1]
  assert error.startswith("error: ")
  assert expected in error
  assert not (tmp_path / "run").exists()


def test_it_trains(tmp_path, capsys):
  """Two candidates, of which one is trained in full."""
  arguments = ["--config.search.optimizers=('adam',)", "--config.train.steps=4"]
  with one_device():
    code = main(["main", CONFIG, f"--workdir={tmp_path / 'run'}", *arguments])
  output = capsys.readouterr()
  assert code == 0, output.err
  winner = result_of(tmp_path)["inits"]["scratch"]["winner"]
  assert winner["workdir"].endswith("_4")
  whole = json.loads((tmp_path / "run" / winner["workdir"] / "result.json").read_text())
  assert winner["test"]["runs"] == whole["test"]["runs"]
  assert "winner" in output.out
