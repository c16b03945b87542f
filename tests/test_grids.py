"""Grids and the studies of the paper: names, settings, labels, and a dry run without weights and without a network."""

import csv
import importlib
import pathlib
import socket
from collections import Counter

import pytest

from discipline_jax import grids
from discipline_jax.errors import UserError
from discipline_jax.grids import GLUE, NON_TEXT, grid
from discipline_jax.main import main
from tests.fake_runs import pretraining

STUDIES = sorted(
  path.stem for path in (pathlib.Path(__file__).parents[1] / "configs").glob("study_*.py")
)


def config_of(name):
  return importlib.import_module(f"configs.{name}").get_config()


def test_names_have_what_varies():
  config = grids.study(grid(("dna_h3", "dna_splice"), inits=("pretrained", "scratch")))
  assert list(config.runs) == [
    f"{task}__{init}" for task in ("dna_h3", "dna_splice") for init in ("pretrained", "scratch")
  ]
  assert list(grids.study(grid(("dna_h3",))).runs) == ["dna_h3"]
  config = grids.study(
    grid(
      ("dna_h3",),
      models=("pre",),
      maps=("random", "unused"),
      fractions=(1.0, 0.005),
      steps=(0, None),
    ),
    pretrainings={"pre": pretraining()},
  )
  cells = [f"dna_h3__{one}" for one in ("random", "unused")]
  cells = [f"{one}__{share}" for one in cells for share in ("100pct", "0_5pct")]
  assert set(config.runs) == {"pre", *cells, *(f"{one}__0" for one in cells)}


def test_settings_and_labels_of_a_cell():
  cells = [
    *grid(("glue_rte",), models=("roberta",), maps=("shift",), fractions=(0.01,)),
    *grid(("dna_h3",), models=("bert_large",), inits=("scratch",)),
    *grid(("dna_h3",), models=("pre",), steps=(7,)),
    *grid(("dna_h3",), models=("hilbert_cnn",), inits=("scratch",)),
    *grid(("protein_stability",), models=("plus_tfm",)),
  ]

  def change(config, cell):
    config.seed = 5 if cell.model == "roberta" else 0

  config = grids.study(
    cells,
    labels=lambda cell: {"version": "v9"},
    change=change,
    pretrainings={"pre": pretraining()},
  )
  models = ("roberta", "bert_large", "pre", "hilbert_cnn", "plus_tfm")
  names = [next(one for one in config.runs if f"__{model}__" in one) for model in models]
  rte, h3, own, hilbert, plus = (config.runs[name] for name in names)
  assert (rte.task.name, rte.replicas, rte.train.epochs, rte.eval.select) == (
    "glue_rte", 3, 3, "last",
  )  # fmt: skip
  assert (rte.token_map.kind, rte.task.train_fraction, rte.seed) == ("shift", 0.01, 5)
  assert (h3.replicas, h3.train.epochs, h3.eval.select, h3.model.init) == (6, 20, "best", "scratch")
  assert (own.model.checkpoint, hilbert.model.checkpoint) == ("pre@7", None)
  assert (hilbert.train.batch_size, hilbert.token_map.kind) == (300, "identity")
  assert plus.model.init == "pretrained"
  assert config.models.to_dict() == {
    "roberta": "FacebookAI/roberta-base",
    "bert_large": "google-bert/bert-large-uncased",
    "plus_tfm": None,
  }
  config.models.plus_tfm = "a/directory"  # as a flag does
  assert [config.labels[name].to_dict() for name in names] == [
    {"model": "roberta", "setting": "shift_1000_1pct", "part": "validation", "fraction": 0.01,
     "version": "v9"},
    {"model": "scratch_large", "setting": "random_mapping", "part": "test", "version": "v9"},
    {"model": "pre", "setting": "random_mapping", "part": "test", "step": 7, "version": "v9"},
    *2 * [{"model": "specific", "setting": "random_mapping", "part": "test", "version": "v9"}],
  ]  # fmt: skip


def test_mistakes():
  with pytest.raises(UserError, match="dna_h3__pretrained"):
    grids.study([*grid(("dna_h3",), inits=("pretrained", "scratch")), *grid(("dna_h3",))])
  with pytest.raises(UserError, match="no model 'bort'"):
    grids.study(grid(("dna_h3",), models=("bort",)))


# The tables of the paper that a study repeats, without the averages: version, table, and its settings there.
TABLES = {
  "study_glue": [("v2", "3", None)],
  "study_nontext": [("v2", "5", None)],
  "study_artificial": [("v2", "2", None)],
  "study_1pct": [("v1", "A1", "shift_1000_1pct")],
}


@pytest.mark.parametrize("name", TABLES)
def test_a_study_has_every_row_of_its_table(name, shared):
  with (shared / "paper" / "results.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
  for version, table, setting in TABLES[name]:
    expected = {
      (row["model"], row["setting"], row["split"])
      for row in rows
      if (row["version"], row["table"]) == (version, table) and setting in (None, row["setting"])
    }
    labels = config_of(name).labels.to_dict().values()
    found = {
      (one["model"], one["setting"], one["part"])
      for one in labels
      if (one.get("version"), one.get("table")) == (version, table)
    }
    assert found == expected


@pytest.mark.parametrize("name", STUDIES)
def test_a_dry_run_needs_no_weights_and_no_network(name, tmp_path, capsys, monkeypatch):
  def refuse(*_):
    raise AssertionError("a connection")

  monkeypatch.setattr(socket.socket, "connect", refuse)
  arguments = [f"--config={name}", f"--config.data_dir={tmp_path / 'data'}"]
  assert main(["main", *arguments, f"--workdir={tmp_path / 'run'}", "--dry-run"]) == 0
  lines = capsys.readouterr().out.splitlines()
  config = config_of(name)
  assert [line.split()[0] for line in sorted(lines[1:-2])] == sorted(config.runs)
  starts = [(run.model.checkpoint or "").partition("@")[0] for run in config.runs.values()]
  waiting = sum(start in config.runs for start in starts)
  states = Counter(line.split()[2] for line in lines[1:-2])
  broken = 3 if name == "study_nontext" else 0  # whose PLUS-TFM has no place yet
  missing = len(config.runs) - waiting - broken
  assert states == Counter(missing=missing, waiting=waiting, broken=broken)
  assert lines[-1].endswith("time left: unknown")
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", STUDIES)
def test_labels_belong_to_runs(name):
  config = config_of(name)
  assert set(config.labels) <= set(config.runs)
  assert all(name.isidentifier() for name in config.runs), "no flag can name its fields"
  for label in config.labels.to_dict().values():
    assert label.keys() <= {
      "version", "table", "model", "setting", "step", "corpus", "fraction", "part"
    }  # fmt: skip


def test_the_grid_has_the_tasks_of_the_paper():
  assert len(GLUE) == len(NON_TEXT) == 8
  for name, counts in (("study_glue", (8, 11)), ("study_token_maps", (8, 6))):
    runs = config_of(name).runs
    names = [run.task.name for run in runs.values()]
    assert {names.count(task) for task in set(names)} == {counts[1]}
    assert len(set(names)) == counts[0]
