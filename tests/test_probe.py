"""Probes of the layers of small networks, for each kind of answer; the best score of some is known."""

import json
import random

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from discipline_jax import modes
from discipline_jax.analyze import analyze
from discipline_jax.measures import position_probe
from discipline_jax.measures.networks import batches, plan_networks, read_networks, run_encoder
from discipline_jax.measures.probe import _mean_states
from discipline_jax.training.sharding import mesh_of
from tests.test_analyze import write_layers
from tests.whole_runs import one_device

draw = random.Random(4)
SEQUENCES = ["".join(draw.choices("ACGT", k=draw.randint(4, 24))) for _ in range(120)]
TABLES = {
  "tagging": lambda one: "".join({"A": "h", "C": "s", "G": "s", "T": "x"}[x] for x in one),
  "position_regression": lambda one: " ".join({"A": "1", "T": "nan"}.get(x, "2.5") for x in one),
  "multilabel": lambda one: ";".join(x for x in "AC" if x in one[:3]) + ";",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return write_layers(tmp_path_factory.mktemp("models") / "letters", 1)


def config(model, folder, kind, *, windows=False):
  path = folder / "mine.csv"
  rows = "".join(f"{one},{TABLES[kind](one)}\n" for one in SEQUENCES)
  path.write_text("sequence,label\n" + rows)
  config = modes.analyze()
  config.task.update(name="custom", path=str(path), kind=kind)
  config.task.ignore_label = "x" if kind == "tagging" else None
  # Of two different values ranks say too little.
  config.task.metric = "pearson" if kind == "position_regression" else None
  if windows:
    config.task.update(long="windows", max_length=14)
  config.model.checkpoint = str(model)
  config.token_map.kind = "random"
  config.train.batch_size = config.eval.batch_size = 16
  config.analysis.update(measure="probe", models=(str(model),), samples=100)
  return config


def run(tmp_path, own):
  with one_device():
    analyze(own, tmp_path / "run")
  return json.loads((tmp_path / "run" / "result.json").read_text())["rows"]


@pytest.mark.parametrize(
  ("kind", "windows"),
  [
    ("tagging", True),
    ("position_regression", False),
    pytest.param("tagging", False, marks=pytest.mark.slow),
    pytest.param("position_regression", True, marks=pytest.mark.slow),
  ],
)
def test_the_state_of_each_position_is_read(kind, windows, model, tmp_path):
  """The answer is decided by the symbol, so that its embedding knows it; in windows, too, and beside masked ones."""
  rows = run(tmp_path, config(model, tmp_path, kind, windows=windows))
  scores = {(row["network"], row["layer"]): row for row in rows}
  assert list(scores) == [
    *(("letters", 0), ("letters", 1)),
    ("one answer for all", None),
    ("one answer for each symbol", None),
    ("symbols around", None),
  ]
  assert scores["letters", 0]["test"] > 95
  assert scores["letters", 0]["validation"] > 95
  assert scores["one answer for each symbol", None]["test"] == pytest.approx(100)
  assert scores["one answer for all", None]["test"] < 80


@pytest.mark.parametrize("windows", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_mean_state_of_several_labels(windows, model, tmp_path):
  rows = run(tmp_path, config(model, tmp_path, "multilabel", windows=windows))
  names = [row["network"] for row in rows]
  assert names == ["letters", "letters", "one answer for all", "counts of symbols"]
  assert all(0 <= row[part] <= 100 for row in rows for part in ("validation", "test"))
  assert rows[0]["test"] > 60


def test_pairs_are_read_as_in_training(model, tmp_path):
  """Which sequence of a pair is longer is in the share of tokens of the second segment, whatever the letters are."""
  own = config(model, tmp_path, "multilabel")
  rows = [(one[: (cut := draw.randint(1, len(one) - 1))], one[cut:]) for one in SEQUENCES]
  text = "".join(f"{a},{b},{'ny'[len(a) > len(b)]}\n" for a, b in rows)
  (tmp_path / "mine.csv").write_text("first,second,label\n" + text)
  own.task.update(kind="classification", sequence_column="first,second", max_length=40)
  found = run(tmp_path, own)
  assert [row["network"] for row in found[2:]] == ["one answer for all", "counts of symbols"]
  assert np.mean([found[0][part] for part in ("validation", "test")]) > 80


def networks_of(own):
  with one_device():
    (network,) = read_networks(own, mesh_of(own), plan_networks(own, download=False))
  return network


def test_the_mean_of_windows_is_the_mean_of_their_means(model, tmp_path):
  own = config(model, tmp_path, "multilabel", windows=True)
  network = networks_of(own)
  features = network.plan.features
  split = network.plan.splits[0]
  found = _mean_states(own, network, split, len(SEQUENCES))
  sequence = features.windows.owners[split["test"][0]]
  rows = np.flatnonzero(features.windows.owners == sequence)
  (batch,) = batches(network.plan, rows, 16)
  states = np.asarray(run_encoder(network, output_hidden_states=True)(batch, 0).hidden_states[1])
  means = [row[: features.lengths[i]].mean(0) for row, i in zip(states, rows, strict=True)]
  np.testing.assert_allclose(found[1, sequence], np.mean(means, axis=0), atol=1e-5)


def test_positions_against_scikit_learn(model, tmp_path, monkeypatch):
  """The score of the last layer is that of scikit-learn on states that are picked position by position."""
  monkeypatch.setattr(position_probe, "_MOST", 10**9)
  own = config(model, tmp_path, "tagging")
  network = networks_of(own)
  split, labels = network.plan.splits[0], network.plan.features.targets["labels"]
  run_network = run_encoder(network, output_hidden_states=True)

  def states(part):
    inputs, truth = [], []
    for number, batch in enumerate(batches(network.plan, split[part], 16)):
      hidden = np.asarray(run_network(batch, number).hidden_states[1])
      for row, sample in zip(hidden, batch.samples, strict=True):
        for place, label in enumerate(labels[sample]):
          if label >= 0:
            inputs.append(row[place])
            truth.append(label)
    return np.array(inputs), np.array(truth)

  inputs, truth = states("train")
  scaler = StandardScaler().fit(inputs)
  scores = []
  for strength in (0.01, 0.1, 1.0, 10.0):
    fitted = LogisticRegression(C=strength, max_iter=300).fit(scaler.transform(inputs), truth)
    scores.append(
      [fitted.score(scaler.transform(x), y) for x, y in map(states, ("validation", "test"))]
    )
  best = int(np.argmax([validation for validation, _ in scores]))
  setting, found = position_probe.probe_positions(own, network, split)[1]
  penalties = ("penalty 100", "penalty 10", "penalty 1", "penalty 0.1")
  assert setting.split(" (")[0] == penalties[best]
  assert [found["validation"], found["test"]] == pytest.approx(
    np.multiply(100, scores[best]), abs=2
  )


def test_some_positions_are_learnt_from(monkeypatch):
  monkeypatch.setattr(position_probe, "_MOST", 7)
  scored = np.random.default_rng(0).random((5, 9)) < 0.5
  chosen = position_probe._some(scored)
  assert chosen.sum() == 7
  assert not (chosen & ~scored).any()
  monkeypatch.setattr(position_probe, "_MOST", 1000)
  np.testing.assert_array_equal(position_probe._some(scored), scored)
