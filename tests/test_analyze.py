"""Runs each analysis on small networks and a generated task, and gives it what it cannot compare."""

import csv
import json
import shutil

import numpy as np
import pytest

from discipline_jax import defaults, modes
from discipline_jax.analyze import MEASURES, analyze
from discipline_jax.errors import UserError
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.measures import attention, networks
from tests.finished_runs import write_finished_run
from tests.testdata import small_files


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return write_layers(tmp_path_factory.mktemp("models") / "letters", 1)


def write_layers(folder, number):
  """Writes a network of so many layers; few are compiled soon."""
  small_files.write_weights(folder)
  fields = json.loads((folder / "config.json").read_text())
  (folder / "config.json").write_text(json.dumps(fields | {"num_hidden_layers": number}))
  return folder


def config(model, measure, models=(), **analysis):
  config = modes.analyze()
  config.task.name = "dna_planted"
  config.model.checkpoint = str(model)
  config.token_map.kind = "random"
  config.train.batch_size = 8
  config.eval.batch_size = 4
  config.analysis.update(
    measure=measure, models=tuple(models), samples=6, batches=4, repeats=2, **analysis
  )
  return config


def run(tmp_path, own):
  analyze(own, tmp_path / "run")
  with (tmp_path / "run" / f"{own.analysis.measure}.csv").open() as file:
    rows = list(csv.DictReader(file))
  return rows, json.loads((tmp_path / "run" / "result.json").read_text())


@pytest.mark.parametrize("measure", MEASURES)
def test_each_measure_of_a_network_and_its_scratch_twin(measure, model, tmp_path, capsys):
  rows, result = run(tmp_path, config(model, measure))
  folder = tmp_path / "run"
  assert {path.name for path in folder.iterdir()} == {
    *(f"{measure}.{ending}" for ending in ("csv", "png", "svg")),
    *("config.json", "inputs.json", "result.json", ".lock"),
  }
  assert result["models"] == ["letters", "scratch letters"]
  assert len(rows) == len(result["rows"]) > 0
  assert [str(value) for value in result["rows"][0].values() if value is not None] == [
    value for value in rows[0].values() if value
  ]
  numbers = [one for row in result["rows"] for one in row.values() if isinstance(one, float)]
  assert np.isfinite(numbers).all()
  said = capsys.readouterr().out
  assert "scratch letters" in said
  before = (folder / "result.json").read_bytes()
  analyze(config(model, measure), folder)
  assert (folder / "result.json").read_bytes() == before, "a finished analysis is only shown"
  assert capsys.readouterr().out == said


def test_a_network_and_itself(model, tmp_path):
  rows, _ = run(tmp_path, config(model, "similarity", (str(model), str(model)), layers="each"))
  assert {row["first_layer"] for row in rows} == {"0", "1"}
  for row in rows:
    if row["measure"] != "authors_pwcca":
      assert float(row["value"]) == pytest.approx(1, abs=1e-6), row
      assert float(row["null"]) < 0.99
  shutil.rmtree(tmp_path / "run")
  rows, _ = run(tmp_path, config(model, "attention", (str(model), str(model))))
  assert {float(row["mean"]) for row in rows if row["second"] != "uniform"} == {0.0}


def test_all_pairs_of_layers(model, tmp_path):
  rows, _ = run(tmp_path, config(model, "similarity", layers="pairs"))
  assert len({(row["first_layer"], row["second_layer"]) for row in rows}) == 4


def test_standardised_features(model, tmp_path):
  rows, _ = run(tmp_path, config(model, "similarity", standardise=True))
  values = {row["measure"]: float(row["value"]) for row in rows}
  assert values["cka"] == pytest.approx(values["cka_standardised"], abs=1e-9)


def test_the_first_tokens_alone(model, tmp_path):
  rows, _ = run(tmp_path, config(model, "similarity", tokens=50))
  assert {row["tokens"] for row in rows} == {"50"}


def test_dropout(model, tmp_path):
  """Only with dropout do two passes of one network differ; the authors have it in networks from scratch alone."""
  found = {}
  for dropout in networks.DROPOUTS:
    own = config(model, "similarity", (str(model), str(model), f"scratch:{model}"), dropout=dropout)
    rows, _ = run(tmp_path / dropout, own)
    found[dropout] = {
      (row["first"], row["second"]): float(row["value"]) for row in rows if row["measure"] == "cka"
    }
  twins, mixed = ("letters", "letters 2"), ("letters", "scratch letters")
  assert found["off"][twins] == found["authors"][twins] == pytest.approx(1, abs=1e-6)
  assert found["on"][twins] < 0.999
  assert found["off"][mixed] != found["authors"][mixed]


def test_scratch_networks_have_weights_of_their_own(model, tmp_path):
  rows, result = run(
    tmp_path, config(model, "similarity", (f"scratch:{model}", f"scratch:{model}"))
  )
  assert result["models"] == ["scratch letters", "scratch letters 2"]
  assert float(next(row["value"] for row in rows if row["measure"] == "cka")) < 0.9999


def test_gradients_are_those_of_each_mini_batch_also_in_a_bucket(model, storage, capsys):
  """The file of gradients is on the disk meanwhile, and gone at the end."""
  for _ in range(2):  # the second time it is only shown
    analyze(config(model, "gradients"), place("gs://bucket/run"))
    assert "table gs://bucket/run/gradients.csv, figure" in capsys.readouterr().out
    files = {f"gradients.{ending}" for ending in ("csv", "png", "svg")}
    files |= {"config.json", "inputs.json", "result.json"}
    assert {*storage.names()} == {f"run/{name}" for name in files}
    assert not [*copies.root().rglob("*.bin")]
  result = json.loads(storage.buckets["bucket"]["run/result.json"].data)
  cosine = next(row for row in result["rows"] if row["measure"] == "cosine")
  assert (cosine["batches"], cosine["pairs"]) == (4, 6)
  assert -1 <= cosine["q0"] <= cosine["mean"] <= cosine["q100"] <= 1


def test_the_table_and_the_summary_of_attention_have_one_deviation():
  found = attention._found({("a", "b"): [[1.0, 2.0]], ("a", "uniform"): [[3.0, 3.5]]}, 1)
  assert [row["std"] for row in found.rows] == pytest.approx([0.5**0.5, 0.125**0.5])
  assert found.summary == [
    ("layer", "a - b", "a - uniform"),
    ("1", "1.500 ± 0.707", "3.250 ± 0.354"),
  ]


def test_gradients_are_of_whole_mini_batches(model, tmp_path):
  """Of 36 samples, four would be left for a fifth one."""
  own = config(model, "gradients", (str(model),))
  own.task.train_fraction = 0.01
  own.analysis.batches = 10
  rows, _ = run(tmp_path, own)
  assert {(row["batches"], row["pairs"]) for row in rows} == {("4", "6")}


def test_gradients_are_those_of_standardised_values(model, tmp_path):
  values = np.random.default_rng(0).normal(300, 20, 48)
  standard = (values - values[:32].mean()) / values[:32].std()
  found = []
  for name, column, standardise in (("raw", values, True), ("standard", standard, False)):
    rows = [
      f"{'ACGT'[i % 4] * 3}{'ACGT'[i // 4 % 4] * 3},{value!r},{'train' if i < 32 else 'val'}"
      for i, value in enumerate(column.tolist())
    ]
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(["sequence,label,part", *rows]) + "\n")
    own = config(model, "gradients", (f"scratch:{model}",))
    own.task.update(name="custom", kind="regression", path=str(path), splits="part")
    own.task.standardise = standardise
    rows, _ = run(tmp_path / name, own)
    found.append([float(row[q]) for row in rows for q in ("mean", "q0", "q100")])
  np.testing.assert_allclose(*found, rtol=1e-3)


def test_dry_run_writes_nothing(model, tmp_path, capsys):
  analyze(config(model, "probe"), tmp_path / "run", dry_run=True)
  assert not (tmp_path / "run").exists()
  assert "scratch letters" in capsys.readouterr().out


def test_a_finished_run_is_a_network(model, tmp_path):
  """The workdir of a fine-tuning stands for its trained weights."""
  trained = defaults.finetune()
  trained.task.name = "dna_planted"
  trained.model.checkpoint = str(model)
  trained.token_map.kind = "random"
  write_finished_run(tmp_path / "trained", trained)
  rows, result = run(tmp_path, config(model, "layernorm", (str(model), str(tmp_path / "trained"))))
  assert result["models"] == ["letters", "trained"]
  spreads = {row["network"]: float(row["std"]) for row in rows if row["half"] == "attention"}
  assert spreads["trained"] != pytest.approx(spreads["letters"], rel=1e-3)
  mistaken = config(model, "layernorm", (f"scratch:{tmp_path / 'trained'}",))
  with pytest.raises(UserError, match="workdir of a fine-tuning"):
    analyze(mistaken, tmp_path / "other")


@pytest.mark.parametrize(
  ("changes", "named"),
  [
    ({"analysis.measure": "cca"}, "analysis.measure"),
    ({"analysis.dropout": "half"}, "analysis.dropout"),
    ({"analysis.layers": "first"}, "analysis.layers"),
    ({"analysis.samples": 0}, "analysis.samples"),
    ({"analysis.scales": (0.0,), "analysis.measure": "perturbation"}, "analysis.scales"),
    ({"analysis.part": "holdout"}, "analysis.part = 'holdout'"),
    ({"analysis.models": ("nowhere/at/all",)}, "nowhere/at/all"),
    ({"analysis.models": ("MODEL",)}, "a similarity is of two networks"),
    ({"model.checkpoint": None}, "no networks to compare"),
    (
      {"analysis.measure": "gradients", "analysis.batches": 1},
      "no pair; raise --config.analysis.batches",
    ),
    (
      {"analysis.measure": "gradients", "train.batch_size": 2000},
      "no pair; lower --config.train.batch_size",
    ),
    ({"analysis.measure": "perturbation", "analysis.dropout": "on"}, "analysis.dropout"),
  ],
)
def test_mistakes(changes, named, model, tmp_path):
  own = config(model, "similarity")
  changes = {
    name: tuple(str(model) if one == "MODEL" else one for one in value)
    if isinstance(value, tuple)
    else value
    for name, value in changes.items()
  }
  with own.ignore_type():
    own.update_from_flattened_dict(changes)
  with pytest.raises(UserError, match=named):
    analyze(own, tmp_path / "run")
  assert not (tmp_path / "run" / "result.json").exists()


def test_other_sizes_and_tokens(model, tmp_path):
  other = write_layers(tmp_path / "other", 2)
  for measure in ("similarity", "attention"):
    own = config(model, measure, (str(model), str(other)), layers="each")
    with pytest.raises(UserError, match="1, 2 layers"):
      analyze(own, tmp_path / "run")


def test_another_checkpoint_in_the_place_of_a_compared_one(model, tmp_path):
  changing = tmp_path / "changing"
  shutil.copytree(model, changing)
  own = config(changing, "layernorm")
  run(tmp_path, own)
  fields = json.loads((changing / "config.json").read_text())
  (changing / "config.json").write_text(json.dumps(fields | {"hidden_dropout_prob": 0.3}))
  with pytest.raises(UserError, match=r"config\.json"):
    analyze(own, tmp_path / "run")
