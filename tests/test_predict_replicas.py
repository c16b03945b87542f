"""Tests predictions by all replicas of a run: the mean of what each predicts, and how far they are apart."""

import json

import numpy as np
import pytest

from discipline_jax import defaults
from discipline_jax.main import main
from tests.finished_runs import write_finished_run
from tests.small_network import SIZES
from tests.test_export import predict
from tests.whole_runs import CONFIG, one_device

ROWS = ["".join(np.random.default_rng(i).choice(list("ACGT"), 4 + i % 7)) for i in range(30)]


@pytest.fixture(scope="module", params=["classification", "regression"])
def finished(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp(request.param)
  (folder / "mine.csv").write_text(
    "sequence,label\n" + "".join(f"{row},{i % 3}\n" for i, row in enumerate(ROWS))
  )
  config = defaults.finetune()
  config.task.update(name="custom", path=str(folder / "mine.csv"), kind=request.param)
  config.model.init = "scratch"
  config.model.config.update(SIZES)
  config.replicas, config.train.batch_size = 3, 8
  write_finished_run(folder / "run", config)
  return folder, request.param


def best_is(folder, replica):
  """Makes another replica the best one on validation."""
  path = folder / "run" / "result.json"
  result = json.loads(path.read_text())
  result["validation"]["runs"] = [float(i == replica) for i in range(3)]
  path.write_text(json.dumps(result))


def test_the_mean_and_the_spread(finished, tmp_path):
  folder, kind = finished
  table = tmp_path / "new.csv"
  table.write_text("sequence\n" + "\n".join(ROWS[:9]) + "\n")
  each = []
  for replica in range(3):
    best_is(folder, replica)
    each.append(predict(folder / "run", table, tmp_path / "one.csv"))
  found = predict(folder / "run", table, tmp_path / "all.csv", "--config.predict.replicas=all")
  assert list(found[0]) == [*each[0][0], "spread"]
  names = ["p_0", "p_1", "p_2"] if kind == "classification" else ["prediction"]
  values = np.array([[[float(row[name]) for name in names] for row in rows] for rows in each])
  ours = np.array([[float(row[name]) for name in names] for row in found])
  np.testing.assert_allclose(ours, values.mean(0), rtol=1e-5)
  chosen = values.mean(0).argmax(-1)
  spreads = values.std(0, ddof=1)[np.arange(9), chosen]
  np.testing.assert_allclose([float(row["spread"]) for row in found], spreads, rtol=1e-4)
  assert [row["line"] for row in found] == [row["line"] for row in each[0]]
  if kind == "classification":
    assert [row["prediction"] for row in found] == [str(i) for i in chosen]


def run(folder, *arguments):
  table = folder / "new.csv"
  table.write_text("sequence,spread\nACGT,1\n")
  with one_device():
    return main(
      [
        *("main", CONFIG, "--config.mode=predict", f"--workdir={folder / 'run'}"),
        *(f"--config.task.path={table}", f"--config.predict.output={folder / 'out.csv'}"),
        *arguments,
      ]
    )


@pytest.mark.parametrize(
  ("arguments", "named"),
  [
    (["--config.predict.replicas=some"], "predict.replicas"),
    (["--config.predict.replicas=all", "--config.predict.keep_columns=spread"], "spread"),
  ],
)
def test_mistakes(finished, arguments, named, capsys):
  folder, _ = finished
  assert run(folder, *arguments) == 2
  assert named in capsys.readouterr().err.splitlines()[-1]
  assert not (folder / "out.csv").exists()


def test_one_replica_has_no_spread(finished, tmp_path, capsys):
  folder, _ = finished
  fields = json.loads((folder / "run" / "config.json").read_text())
  fields["replicas"] = 1
  config = defaults.read(fields)
  write_finished_run(tmp_path / "run", config)
  assert run(tmp_path, "--config.predict.replicas=all") == 2
  assert "predict.replicas" in capsys.readouterr().err.splitlines()[-1]
  assert run(tmp_path, "--config.predict.keep_columns=spread") == 0
