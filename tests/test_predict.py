"""A finished run's model over new files."""

import csv
import json

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from scipy.special import softmax

from discipline_jax.evaluation import device_data, predict
from discipline_jax.main import main
from discipline_jax.models.functional import classifier_function
from discipline_jax.plan import make_plan
from discipline_jax.saved import read_model
from discipline_jax.training.steps import make_eval_step
from tests.runs import CONFIG


def run(workdir, table, output, *arguments) -> int:
  return main(
    [
      *("main", CONFIG, "--config.mode=predict", f"--workdir={workdir}"),
      *(f"--config.task.path={table}", f"--config.predict.output={output}"),
      f"--config.cache_dir={workdir.parent / 'cache'}",
      *arguments,
    ]
  )


@pytest.fixture(scope="module")
def predicted(uninterrupted, tmp_path_factory):
  """The test samples of the better replica, as a table, and what was predicted for it."""
  workdir = uninterrupted[0]
  saved = read_model(workdir)
  plan = make_plan(saved.config)
  replica = int(np.argmax(saved.result["validation"]["runs"]))
  folder = tmp_path_factory.mktemp("predict")
  samples = plan.task.read()["all"]
  chosen = plan.splits[replica]["test"]
  with (folder / "new.csv").open("w") as file:
    file.write("name,sequence\n" + "".join(f"s{i},{samples[i].sequence.lower()}\n" for i in chosen))
  assert run(workdir, folder / "new.csv", folder / "out.csv") == 0
  with (folder / "out.csv").open() as file:
    return plan, replica, saved, list(csv.DictReader(file))


def test_the_score_is_that_of_the_run(predicted):
  plan, replica, saved, rows = predicted
  truth = [plan.task.labels[i] for i in plan.features.labels[plan.splits[replica]["test"]]]
  right = np.mean([row["prediction"] == label for row, label in zip(rows, truth, strict=True)])
  assert 100 * right == pytest.approx(saved.result["test"]["runs"][replica])
  assert [int(row["line"]) for row in rows] == list(range(2, 202))


def test_probabilities_are_those_of_the_evaluation_bit_for_bit(predicted, uninterrupted):
  """Against the evaluation of the best weights in the run's checkpoint."""
  plan, replica, _, rows = predicted
  manager = ocp.CheckpointManager((uninterrupted[0] / "checkpoints").absolute())
  best = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore())["bests"][replica]
  params = jax.tree.map(np.asarray, best["params"])
  group = slice(replica, replica + 1)
  import dataclasses

  compact = dataclasses.replace(plan.model_config, vocab_size=len(plan.sub_tables[0].rows))
  step = make_eval_step(classifier_function(compact, plan.head, plan.dtype), plan.mesh, params)
  logits = predict(
    plan.mesh,
    step,
    params,
    device_data(plan, group),
    plan.splits[replica]["test"][None],
    plan.lengths,
    plan.config.eval.batch_size,
  )[0]
  names = [f"p_{label}" for label in plan.task.labels]
  ours = np.array([[float(row[name]) for name in names] for row in rows], np.float32)
  np.testing.assert_array_equal(ours, softmax(logits, axis=-1))


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("sequence\nACGT\nACJT\n", "'J' is not a symbol of the run's task (ACGT"),
    ("name\nACGT\n", "no column 'sequence' but name, "),
    ("", "no column 'sequence'"),
    ("sequence\n", "no row, "),
  ],
)
def test_a_wrong_table_is_one_line(content, message, uninterrupted, tmp_path, capsys):
  table = tmp_path / "new.csv"
  table.write_text(content)
  assert run(uninterrupted[0], table, tmp_path / "out.csv") == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert message in error
  assert str(table) in error
  assert not (tmp_path / "out.csv").exists()


def test_an_unfinished_run_and_a_wrong_output(uninterrupted, tmp_path, capsys):
  table = tmp_path / "new.csv"
  table.write_text("sequence\nACGT\n")
  assert run(tmp_path / "none", table, tmp_path / "out.csv") == 2
  assert f"no finished run in {tmp_path / 'none'}" in capsys.readouterr().err
  assert run(uninterrupted[0], table, tmp_path / "no" / "out.csv") == 2
  assert "is not a .csv file in a folder that exists" in capsys.readouterr().err
  assert run(uninterrupted[0], table, tmp_path / "out.csv", "--dry-run") == 0
  assert "1 rows of" in capsys.readouterr().out
  assert not (tmp_path / "out.csv").exists()


def test_the_run_is_left_as_it_was(uninterrupted, predicted):
  assert json.loads((uninterrupted[0] / "config.json").read_text())["mode"] == "finetune"
