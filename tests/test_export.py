"""Tests that an exported model computes what its run computes."""

import csv
import json

import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file
from scipy.special import softmax

from discipline_jax import models
from discipline_jax.main import main
from discipline_jax.models.initialise import initial_params, word_embeddings
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.runs.saved import read_model
from tests.whole_runs import CONFIG, one_device


def export(workdir, output, *arguments) -> int:
  with one_device():
    return main(
      [
        *("main", CONFIG, "--config.mode=export", f"--workdir={workdir}"),
        *(f"--config.export.output={output}", *arguments),
      ]
    )


def predict(workdir, table, output, *arguments) -> list[dict[str, str]]:
  with one_device():
    assert (
      main(
        [
          *("main", CONFIG, "--config.mode=predict", f"--workdir={workdir}"),
          *(f"--config.task.path={table}", f"--config.predict.output={output}", *arguments),
        ]
      )
      == 0
    )
  with output.open() as file:
    return list(csv.DictReader(file))


def test_symbols(uninterrupted, tmp_path):
  workdir, _, _ = uninterrupted
  assert export(workdir, tmp_path / "out") == 0
  sequences = ["ACGTACGTTTGACA", "TTTT", "GATTACA"]
  (tmp_path / "new.csv").write_text("sequence\n" + "\n".join(sequences) + "\n")
  rows = predict(workdir, tmp_path / "new.csv", tmp_path / "out.csv")

  ids = json.loads((tmp_path / "out" / "input_ids.json").read_text())
  assert ids.keys() >= {"[PAD]", "[CLS]", "[SEP]", "A", "C", "G", "T"}
  model = models.load(str(tmp_path / "out"), models.Classifier(3))
  config = json.loads((tmp_path / "out" / "config.json").read_text())
  names = [config["id2label"][str(i)] for i in range(3)]
  for sequence, row in zip(sequences, rows, strict=True):
    inputs = jnp.array([[ids[symbol] for symbol in ["[CLS]", *sequence, "[SEP]"]]])
    expected = [float(row[f"p_{name}"]) for name in names]
    np.testing.assert_allclose(softmax(model(inputs)[0]), expected, atol=1e-6)


def test_the_table_has_the_trained_row_of_each_symbol_at_its_id(uninterrupted, tmp_path):
  workdir, _, _ = uninterrupted
  assert export(workdir, tmp_path) == 0
  saved = read_model(workdir)
  seed = saved.inputs.seeds[saved.best]
  plan = make_plan(saved.config)
  head = plan.task.answer.head
  before = word_embeddings(initial_params("scratch", plan.model.config, head, None, seed))["weight"]
  params, _, lookup = saved.weights(seed)
  trained = word_embeddings(params)["weight"][lookup]
  after = load_file(tmp_path / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
  ids = json.loads((tmp_path / "input_ids.json").read_text())
  symbols = ["[PAD]", "[CLS]", "[SEP]", *plan.task.alphabet.symbols]
  np.testing.assert_array_equal(after[[ids[symbol] for symbol in symbols]], trained)
  # Other rows are what the run began with, also those that symbols had in the run.
  others = np.setdiff1d(np.arange(64), [*ids.values()])
  others = np.append(others, ids["[UNK]"])
  np.testing.assert_array_equal(after[others], before[others])
  assert np.isin(plan.sub_tables[saved.best].rows, others).any()


def test_mistakes_are_one_line(uninterrupted, tmp_path, capsys):
  workdir, _, _ = uninterrupted
  with one_device():
    assert main(["main", CONFIG, "--config.mode=export", f"--workdir={workdir}"]) == 2
  assert "needs --config.export.output" in capsys.readouterr().err
  assert export(tmp_path / "nothing", tmp_path / "out") == 2
  assert "no finished fine-tuning in" in capsys.readouterr().err
  (tmp_path / "file").write_text("")
  assert export(workdir, tmp_path / "file") == 2
  assert "cannot write a checkpoint" in capsys.readouterr().err


def test_dry_run_writes_nothing(uninterrupted, tmp_path, capsys):
  workdir, _, _ = uninterrupted
  assert export(workdir, tmp_path / "out", "--dry-run") == 0
  assert capsys.readouterr().out.startswith(f"would write {tmp_path / 'out'}: the replica with")
  assert not (tmp_path / "out").exists()
