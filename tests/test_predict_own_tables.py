"""Tests predictions of a finished custom run for new tables: columns that are kept, and letter case."""

import csv
import random

import pytest

from discipline_jax.main import main
from tests.tasks.own_tables import written
from tests.whole_runs import CONFIG, one_device


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """Returns a run on 2-mers of DNA, and ten of its sequences."""
  folder = tmp_path_factory.mktemp("custom")
  random.seed(0)
  sequences = ["".join(random.choices("ACGT", k=12)) for _ in range(48)]
  rows = "".join(f"{one},{i % 2}\n" for i, one in enumerate(sequences))
  arguments = [
    *("main", CONFIG, "--config.task.name=custom", "--config.task.symbols=kmers"),
    *(
      "--config.task.k=2",
      f"--config.task.path={written(folder, 'sequence,label' + chr(10) + rows)}",
    ),
    *("--config.replicas=1", "--config.train.steps=2", "--config.train.batch_size=8"),
    f"--workdir={folder / 'run'}",
  ]
  with one_device():
    assert main(arguments) == 0
  return folder / "run", sequences[:10]


def predict(workdir, table, *arguments):
  """Returns the exit code, and the rows of the output."""
  output = table.with_name("out.csv")
  fields = (f"--config.task.path={table}", f"--config.predict.output={output}")
  with one_device():
    code = main(
      ["main", CONFIG, "--config.mode=predict", f"--workdir={workdir}", *fields, *arguments]
    )
  if not output.exists():
    return code, []
  with output.open(newline="") as file:
    rows = list(csv.reader(file))
  output.unlink()
  return code, rows


def test_columns_are_kept(finished, tmp_path):
  workdir, sequences = finished
  rows = "".join(f's{i};{one};"a, b\n{i}"\n' for i, one in enumerate(sequences))
  table = written(tmp_path, "id;sequence;the note\n" + rows)
  code, plain = predict(workdir, table)
  assert (code, plain[0]) == (0, ["line", "prediction", "p_0", "p_1"])
  code, kept = predict(workdir, table, "--config.predict.keep_columns=the note, id")
  assert (code, kept[0]) == (0, ["line", "the note", "id", "prediction", "p_0", "p_1"])
  assert [row[1:3] for row in kept[1:]] == [[f"a, b\n{i}", f"s{i}"] for i in range(10)]
  assert [[row[0], *row[3:]] for row in kept] == plain
  fasta = "".join(f">s{i} any words\n{one}\n" for i, one in enumerate(sequences))
  code, kept = predict(
    workdir, written(tmp_path, fasta, "a.fa"), "--config.predict.keep_columns=name"
  )
  assert [row[1] for row in kept[1:]] == [f"s{i}" for i in range(10)]
  assert [row[2:] for row in kept[1:]] == [row[1:] for row in plain[1:]]


@pytest.mark.parametrize("columns", ["name", "line", "p_1", "id,id", "id,"])
def test_columns_that_cannot_be_kept(columns, finished, tmp_path, capsys):
  table = written(tmp_path, "id,p_1,sequence\ns,t,ACGT\n")
  assert predict(finished[0], table, f"--config.predict.keep_columns={columns}") == (2, [])
  error = capsys.readouterr().err.splitlines()[-1]
  assert "predict.keep_columns" in error
  assert "embed" not in error


def test_lower_case(finished, tmp_path, capsys):
  workdir, sequences = finished
  lower = written(tmp_path, "sequence\n" + "".join(f"{one.lower()}\n" for one in sequences))
  assert predict(workdir, lower) == (2, [])
  error = capsys.readouterr().err.splitlines()[-1]
  assert "110 of 110 symbols" in error
  assert f"{lower}:2; " in error
  assert "--config.task.case=upper" in error
  upper = written(tmp_path, "sequence\n" + "".join(f"{one}\n" for one in sequences), "upper.csv")
  assert predict(workdir, lower, "--config.task.case=upper") == predict(workdir, upper)
