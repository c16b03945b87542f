"""Tests the predictions of a finished run's model for new files."""

import csv
import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tokenizers
from scipy.special import softmax

from discipline_jax import defaults
from discipline_jax.main import main
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import initial_params, word_embeddings
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.runs.saved import read_model
from discipline_jax.training.sharding import mesh_of
from tests.finished_runs import write_finished_run
from tests.testdata.small_files import write_data, write_model, write_weights
from tests.whole_runs import CONFIG, one_device


def run(workdir, table, output, *arguments) -> int:
  return main(
    [
      *("main", CONFIG, "--config.mode=predict", f"--workdir={workdir}"),
      *(f"--config.task.path={table}", f"--config.predict.output={output}"),
      *arguments,
    ]
  )


def best_params(workdir, replica) -> dict:
  """Returns the best weights in a run's checkpoint."""
  manager = ocp.CheckpointManager((workdir / "checkpoints").absolute())
  best = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore())["bests"][replica]
  return jax.tree.map(np.asarray, best["params"])


@pytest.fixture(scope="module")
def predicted(uninterrupted, tmp_path_factory):
  """Returns the test samples of the better replica, as a table, and what was predicted for it."""
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
  numbers = plan.features.targets["labels"][plan.splits[replica]["test"]]
  truth = [plan.task.answer.labels[i] for i in numbers]
  right = np.mean([row["prediction"] == label for row, label in zip(rows, truth, strict=True)])
  assert 100 * right == pytest.approx(saved.result["test"]["runs"][replica])
  assert [int(row["line"]) for row in rows] == list(range(2, 202))


def test_probabilities_are_those_of_the_evaluation_bit_for_bit(predicted, uninterrupted):
  """The evaluation is computed again, with the best weights in the run's checkpoint."""
  plan, replica, _, rows = predicted
  params = best_params(uninterrupted[0], replica)
  group = slice(replica, replica + 1)
  program = Finetuning(plan, mesh_of(plan.config))
  logits = program.outputs(params, group, plan.splits[replica]["test"][None])[0]
  names = [f"p_{label}" for label in plan.task.answer.labels]
  ours = np.array([[float(row[name]) for name in names] for row in rows], np.float32)
  np.testing.assert_array_equal(
    ours, np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
  )
  np.testing.assert_allclose(ours, softmax(logits, axis=-1), rtol=1e-5)


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("sequence\nACGT\nACJT\n", "'J' is not a symbol of the run's task (A C G T"),
    ("name\nACGT\n", "'sequence'"),
    ("", "task.path"),
    ("sequence\n", "task.path"),
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
  assert f"no finished fine-tuning in {tmp_path / 'none'}" in capsys.readouterr().err
  assert run(uninterrupted[0], table, tmp_path / "no" / "out.csv") == 2
  assert "is not a .csv file in a folder that exists" in capsys.readouterr().err
  assert run(uninterrupted[0], table, tmp_path / "out.csv", "--dry-run") == 0
  out = capsys.readouterr().out
  assert out.startswith(
    f"would write {tmp_path / 'out.csv'}: predictions for 1 rows of {table} by the replica"
  )
  assert not (tmp_path / "out.csv").exists()


def test_a_run_of_an_older_version_is_read(uninterrupted, tmp_path):
  """Its task.json had other names, and did not say which symbol may be unknown."""
  workdir = tmp_path / "run"
  shutil.copytree(uninterrupted[0] / "model", workdir / "model")
  for name in ("config.json", "result.json"):
    shutil.copy(uninterrupted[0] / name, workdir)
  task = json.loads((workdir / "model" / "task.json").read_text())
  del task["alphabet"]["unknown_symbol"]
  answer = task.pop("answer")
  task |= {"labels": answer["labels"], "metric": answer["metric"]}
  task["bracketed"] = task.pop("add_special_tokens")
  (workdir / "model" / "task.json").write_text(json.dumps(task))
  ours, theirs = (read_model(path).task for path in (workdir, uninterrupted[0]))
  assert dataclasses.replace(ours, read=dict) == dataclasses.replace(theirs, read=dict)


def test_the_table_is_not_replaced(uninterrupted, tmp_path, capsys):
  table = tmp_path / "new.csv"
  table.write_text("sequence\nACGT\n")
  (tmp_path / "link.csv").symlink_to(table)
  for output in (table, tmp_path / "link.csv"):
    assert run(uninterrupted[0], table, output) == 2
    assert "is task.path itself, which it would replace" in capsys.readouterr().err
  assert table.read_text() == "sequence\nACGT\n"


@pytest.mark.parametrize(
  "content",
  ["name,prediction\na,1\n", "line,note\n2,seen\n", "\n", "line\rprediction\n", "\0" * 200_000],
)
def test_another_file_is_not_replaced(content, uninterrupted, tmp_path, capsys):
  table, output = tmp_path / "new.csv", tmp_path / "out.csv"
  table.write_text("sequence\nACGT\n")
  output.write_bytes(content.encode())
  assert run(uninterrupted[0], table, output, "--dry-run") == 2
  assert capsys.readouterr().err.splitlines()[-1] == (
    f"error: mode predict did not write the file that is there, and would replace it, {output}; move it away, or set"
    " --config.predict.output to another file"
  )
  assert output.read_bytes() == content.encode()


def test_predictions_and_an_empty_file_are_replaced(uninterrupted, tmp_path):
  table, output = tmp_path / "new.csv", tmp_path / "out.csv"
  table.write_text("sequence,prediction\nACGT,'old\n")
  output.touch()
  for _ in range(2):
    assert run(uninterrupted[0], table, output, "--config.predict.keep_columns=sequence") == 0
  table.write_text("sequence\nACGT\nAAGT\n")
  assert run(uninterrupted[0], table, output) == 0
  with output.open() as file:
    assert [row["line"] for row in csv.DictReader(file)] == ["2", "3"]


def test_lists_of_symbols_and_rows_to_leave_out(uninterrupted, tmp_path, caplog):
  """A list of letters is read as the text of these letters; U and lower case are read as in a text."""
  table = tmp_path / "new.jsonl"
  table.write_text(
    '{"sequence": "ACGTT"}\n{"sequence": ["a", "C", "g", "U", "T"]}\n{"sequence": "AJ"}\n{"name": "A"}\n{\n'
  )
  assert run(uninterrupted[0], table, tmp_path / "out.csv") == 2
  assert not (tmp_path / "out.csv").exists()
  assert run(uninterrupted[0], table, tmp_path / "out.csv", "--config.task.skip_invalid=True") == 0
  with (tmp_path / "out.csv").open() as file:
    first, second = csv.DictReader(file)
  assert (first.pop("line"), second.pop("line")) == ("1", "2")
  assert first == second
  warnings = [line for line in caplog.messages if str(table) in line]
  assert len(warnings) == 1, "one file is warned of once"
  assert warnings[0].startswith("3 samples")


def test_the_run_is_left_as_it_was(uninterrupted, predicted):
  assert json.loads((uninterrupted[0] / "config.json").read_text())["mode"] == "finetune"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
  """Returns the folder of a finished run on pairs of texts; its token map depends on the tokens that occur."""
  folder = tmp_path_factory.mktemp("pairs")
  write_data(folder)
  write_model(folder / "model")
  arguments = [
    *("main", "--config=glue_stsb", f"--config.data_dir={folder}", "--config.model.init=scratch"),
    *(f"--config.model.checkpoint={folder / 'model'}", "--config.token_map.kind=frequent"),
    *("--config.replicas=1", "--config.train.steps=2", "--config.train.batch_size=8"),
    *("--config.train.learning_rate=0.01", f"--workdir={folder / 'run'}"),
  ]
  with one_device():
    assert main(arguments) == 0
  return folder


def run_pairs(folder, table, *arguments) -> int:
  columns = "--config.task.sequence_column=sentence1,sentence2"
  return run(folder / "run", table, table.with_suffix(".csv"), columns, *arguments)


def test_unknown_tokens_of_texts_are_counted(pairs, tmp_path, caplog, capsys):
  """The model knows letters; other words are one unknown token, and so is a mark that it does not know."""
  table = tmp_path / "new.jsonl"

  def dry_run(*rows) -> int:
    names = ("sentence1", "sentence2")
    table.write_text("".join(json.dumps(dict.fromkeys(names, row)) + "\n" for row in rows))
    return run_pairs(pairs, table, "--dry-run")

  assert dry_run("a b", "A, Hello b", "b ééé? a") == 0
  (line,) = [one for one in caplog.messages if "vocabulary" in one]
  assert line.startswith(
    f"6 of 20 tokens are not in the model's vocabulary (Hello ééé ?), first at {table}:2; they are read as"
  )
  assert dry_run("a", "Hello there") == 2
  told = "error: 4 of 6 tokens are not in the model's vocabulary (Hello"
  assert capsys.readouterr().err.splitlines()[-1].startswith(told)


def test_pairs_are_what_the_run_makes_of_them(pairs, tmp_path):
  """Training samples agree bit for bit; a row with an unseen word agrees with the whole table, indexed by NumPy."""
  lines = (pairs / "glue_data" / "STS-B" / "train.tsv").read_text().splitlines()
  new = ('"a cat w90" w91', "the mat")
  table = tmp_path / "new.tsv"
  table.write_text("\n".join([*lines, f"40\tnews\t{new[0]}\t{new[1]}\t"]) + "\n")
  assert run_pairs(pairs, table) == 0
  with (tmp_path / "new.csv").open() as file:
    rows = list(csv.DictReader(file))
  assert [int(row["line"]) for row in rows] == list(range(2, 43))
  predicted = np.array([float(row["prediction"]) for row in rows], np.float32)

  plan = make_plan(read_model(pairs / "run").config)
  params = best_params(pairs / "run", 0)
  program = Finetuning(plan, mesh_of(plan.config))
  logits = program.outputs(params, slice(0, 1), np.arange(40)[None])[0]
  np.testing.assert_array_equal(predicted[:40], logits[:, 0])

  tokenizer = tokenizers.Tokenizer.from_file(str(pairs / "model" / "tokenizer.json"))
  names = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
  frequent = [i for i, name in enumerate(names) if i > 4 and len(name) > 1]
  seen = {
    i for line in lines[1:] for text in line.split("\t")[2:4] for i in tokenizer.encode(text).ids
  }
  dev = (pairs / "glue_data" / "STS-B" / "dev.tsv").read_text().splitlines()
  seen |= {
    i for line in dev[1:] for text in line.split("\t")[2:4] for i in tokenizer.encode(text).ids
  }
  row_of = np.arange(len(names))
  own = sorted(seen - {2, 3})
  row_of[own] = frequent[: len(own)]
  encoded = tokenizer.encode(*new)
  assert not {tokenizer.token_to_id("w90"), tokenizer.token_to_id("w91")} & seen
  params = jax.tree.map(lambda leaf: leaf[0], params)
  whole = np.array(
    word_embeddings(initial_params("scratch", plan.model.config, plan.task.answer.head, None, 0))[
      "weight"
    ]
  )
  whole[plan.sub_tables[0].rows] = word_embeddings(params)["weight"]
  word_embeddings(params)["weight"] = whole
  params = jax.tree.map(jnp.asarray, params)
  expected = classifier_function(plan.model.config, plan.task.answer.head)(
    params,
    jnp.asarray(row_of[encoded.ids])[None],
    jnp.ones((1, len(encoded.ids)), jnp.int32),
    jnp.asarray(encoded.type_ids)[None],
    None,
  ).logits
  np.testing.assert_allclose(predicted[40], expected[0, 0], rtol=1e-5)


@pytest.mark.parametrize(
  ("name", "content", "column", "message"),
  [
    ("a.tsv", "sentence1\na cat\n", "sentence1", "task.sequence_column = 'sentence1' is not two columns"),
    ("a.tsv", "sentence1\na cat\n", "sentence1,sentence2", "{}:1"),
    ("a.jsonl", '{"sentence1": "a", "sentence2": 3}\n', "sentence1,sentence2", "'3' is not a text, {}:1"),
    ("a.tsv", "sentence1\tsentence2\na\tb\na\t \n", "sentence1,sentence2", "empty text, {}:3"),
    ("a.tsv", 'sentence1\tsentence2\n"a\tb\nc"\n', "sentence1,sentence2", "1 fields where the header has 2, {}:3"),
  ],
)  # fmt: skip
def test_wrong_pairs_are_one_line(name, content, column, message, pairs, tmp_path, capsys):
  table = tmp_path / name
  table.write_text(content)
  assert run_pairs(pairs, table, f"--config.task.sequence_column={column}") == 2
  assert message.replace("{}", str(table)) in capsys.readouterr().err.splitlines()[-1]
  assert list(tmp_path.iterdir()) == [table]


def test_a_run_and_its_checkpoint_that_were_moved_together(tmp_path, capsys):
  """As those of a study are."""
  before = tmp_path / "before"
  write_weights(before / "model")
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.model.checkpoint = str(before / "model")
  config.token_map.kind = "random"
  write_finished_run(before / "run", config)
  before.rename(tmp_path / "after")
  table = tmp_path / "new.csv"
  table.write_text("sequence\nACGT\n")
  arguments = [
    *("main", "--config=custom", "--config.mode=predict", f"--config.task.path={table}"),
    *(f"--workdir={tmp_path / 'after' / 'run'}", f"--config.predict.output={tmp_path / 'out.csv'}"),
  ]
  assert main(arguments) == 0, capsys.readouterr().err
  (tmp_path / "after" / "model").rename(tmp_path / "elsewhere")
  assert main(arguments) == 2
  assert str(before / "model") in capsys.readouterr().err
