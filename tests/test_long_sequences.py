"""Tests runs over sequences that are longer than the model can read: windows in training, evaluation and prediction."""

import dataclasses
import json
import random
import re

import numpy as np
import pytest

from discipline_jax import defaults, tasks
from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_description import describe
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.runs.predictions import FILE
from discipline_jax.runs.saved import read_model
from discipline_jax.tasks.features import NUM_SPECIAL, featurise
from discipline_jax.training.sharding import mesh_of
from tests.finished_runs import write_finished_run
from tests.tasks.own_tables import read, written
from tests.test_export import predict
from tests.test_exported_inputs import SIZES, config_of
from tests.test_position_runs import of_positions
from tests.whole_runs import one_device

LETTERS = "ACDE"
draw = random.Random(2)


def sequence(length):
  return "".join(draw.choices(LETTERS, k=length))


LENGTHS = [5, 10, 11, 18, 19, 40] * 10
SEQUENCES = [sequence(length) for length in LENGTHS]
MAX_LENGTH = 12  # 10 symbols


def tags_of(one):
  return "".join("hs"[letter in "AC"] for letter in one)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
  """Tables with tags, classes and values for the same sequences."""
  folder = tmp_path_factory.mktemp("tables")
  labels = {
    "tagging": tags_of,
    "classification": lambda one: "yn"[len(one) % 2],
    "regression": len,
  }
  for kind, label in labels.items():
    rows = "".join(f"{one},{label(one)},{i % 7}\n" for i, one in enumerate(SEQUENCES))
    (folder / f"{kind}.csv").write_text("sequence,label,family\n" + rows)
  return folder


def config_for(kind, folder, **fields):
  config = config_of(None, folder / f"{kind}.csv", **{"task.kind": kind, **fields})
  config.task.max_length = MAX_LENGTH
  config.task.long = "windows"
  config.model.config.update(SIZES)
  config.token_map.kind = "random_shift"
  return config


@pytest.mark.parametrize(
  "fields", [{}, {"task.group_column": "family"}, {"task.group_identity": 0.9}]
)
def test_all_windows_of_a_sequence_are_in_one_part(fields, tables, caplog):
  plan = make_plan(config_for("tagging", tables, replicas=2, **fields))
  features = plan.features
  assert features.parts == {"all": 60}
  counts = np.bincount(features.windows.owners)
  assert counts.tolist() == [
    1 if length <= 10 else -(-(length - 10) // 5) + 1 for length in LENGTHS
  ]
  numbers = [re.findall(r"\d+", record.getMessage()) for record in caplog.records]
  assert [*map(str, (40, 60, MAX_LENGTH, counts[counts > 1].sum()))] in numbers
  scored = features.targets["labels"] >= 0
  assert scored.sum() == sum(LENGTHS)
  for split in plan.splits:
    owners = {part: {*features.windows.owners[rows].tolist()} for part, rows in split.items()}
    assert sum(map(len, owners.values())) == len(set().union(*owners.values()))
    for part in ("validation", "test"):
      assert len(split[part]) == counts[[*owners[part]]].sum()
  (kept,) = {len(split["train"]) for split in plan.splits}
  if not fields:
    held_out = [np.concatenate([split["validation"], split["test"]]) for split in plan.splits]
    most = max(counts.sum() - len(one) for one in held_out)
    assert f"up to {most - kept} of a replica's {most} windows of training" in caplog.text
  lines = describe(Finetuning(plan, mesh_of(plan.config)))
  assert lines["task"].startswith("custom: 60 samples")
  assert f"60 sequences in {counts.sum()} windows; 40 are longer" in lines["windows"]
  assert "3 validation, 3 test" in lines["split"] or fields  # groups are not of one size


def test_symbols_that_two_windows_read_are_counted_once(tmp_path, caplog):
  """Windows of a sequence of 15 symbols are 0 to 9 and 5 to 14; the first decides on 5, 6 and 7."""
  lengths = [15] * 12 + [3]
  rows = [f"{one},{i % 2},train\n" for i, one in enumerate(map(sequence, lengths))]
  rows += ["AAAAAAAZAAAAAAA,0,val\n", "ZAAAAAAAAAAAAAZ,1,val\n"]
  (tmp_path / "classification.csv").write_text("sequence,label,part\n" + "".join(rows))
  plan = make_plan(config_for("classification", tmp_path, **{"task.splits": "part"}))
  assert "3 symbols of the validation part do not occur in training" in caplog.text
  counts = np.bincount(plan.features.each_symbol_once().ravel())
  assert counts[NUM_SPECIAL:].sum() == sum(lengths) + 30
  lines = describe(Finetuning(plan, mesh_of(plan.config)))
  assert f"others {100 * 3 / (sum(lengths) + 30):.2g}%" in lines["symbols"]


def test_a_plan_counts_the_classes_of_sequences(tables):
  plan = make_plan(config_for("classification", tables, replicas=1))
  lines = describe(Finetuning(plan, mesh_of(plan.config)))
  odd = sum(length % 2 for length in LENGTHS)
  assert lines["classes"] == f"n {odd}, y {60 - odd}"


def test_the_samples_of_an_evaluation_are_sequences(tables, caplog):
  """Without a network: the outputs are zeros."""
  plan = make_plan(config_for("tagging", tables, replicas=2, **{"eval.every_steps": 1}))
  assert "chosen on 3 validation samples" in caplog.text
  program = Finetuning(plan, mesh_of(plan.config))
  program.restored = lambda params: params
  program.outputs = lambda _, __, indices: np.zeros((*indices.shape, MAX_LENGTH, 2), np.float32)
  owners = plan.features.windows.owners
  for number in (1, 2, 3, 4, -1):
    found = program.predictions([{}] * len(program.groups), "validation", number)
    for one, split in zip(found, plan.splits, strict=True):
      sequences = list(dict.fromkeys(owners[split["validation"]].tolist()))
      own = sequences if number == -1 else sequences[:number]
      assert one.units.tolist() == own
      assert (one.measured.labels >= 0).sum() == sum(LENGTHS[i] for i in own)


@pytest.mark.parametrize(
  ("kind", "name", "line"),
  [
    ("classification", "classes", "n 30, y 30"),
    ("regression", "values", "5 to 40, median 14.5"),
    ("tagging", "tags", None),
  ],
)
def test_a_plan_counts_each_answer_once(kind, name, line, tables):
  """There are more windows than sequences, and windows overlap."""
  plan = make_plan(config_for(kind, tables))
  if line is None:
    tags = "".join(map(tags_of, SEQUENCES))
    line = f"h {tags.count('h')}, s {tags.count('s')}"
  assert describe(Finetuning(plan, mesh_of(plan.config)))[name] == line


def test_each_position_is_predicted_once_and_as_without_windows_where_it_fits(tmp_path):
  """A model of 512 positions, and sequences of 2,046 and of fewer symbols."""
  rows = "".join(f"{one},{tags_of(one)}\n" for one in SEQUENCES)
  (tmp_path / "tagging.csv").write_text("sequence,label\n" + rows)
  config = config_for("tagging", tmp_path)
  config.task.max_length = None
  config.model.config.max_position_embeddings = 512
  write_finished_run(tmp_path / "run", config)
  texts = [sequence(2046), sequence(510), sequence(511), sequence(7)]
  (tmp_path / "new.csv").write_text("sequence\n" + "\n".join(texts) + "\n")
  columns = ["p_h", "p_s"]
  found = predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "out.csv")
  places = [int(row["position"]) for row in found]
  assert places == [i for one in texts for i in range(1, len(one) + 1)]
  windows = of_positions(found, columns)
  cut = ("--config.task.long=cut", "--config.task.stride=None")
  as_told = of_positions(
    predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "told.csv", *cut), columns
  )
  task = tmp_path / "run" / "model" / "task.json"
  task.write_text(json.dumps(json.loads(task.read_text()) | {"windows": False}))
  plain = of_positions(
    predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "cut.csv"), columns
  )
  for i in (1, 3):
    np.testing.assert_allclose(windows[i], plain[i], atol=1e-6)
  assert [len(one) for one in plain] == [510, 510, 510, 7]
  for one, other in zip(as_told, plain, strict=True):
    np.testing.assert_array_equal(one, other)
  # A run that was trained on cut sequences can predict whole ones.
  found = predict(
    tmp_path / "run", tmp_path / "new.csv", tmp_path / "again.csv", "--config.task.long=windows"
  )
  for one, other in zip(of_positions(found, columns), windows, strict=True):
    np.testing.assert_array_equal(one, other)
  # The first window reads the same, and decides up to the middle of what it shares with the second.
  middle = (1536 // 7 + 509) // 2 + 1  # the eight windows begin 1536 / 7 symbols apart
  np.testing.assert_allclose(windows[0][:middle], plain[0][:middle], atol=1e-6)
  assert np.abs(windows[0][middle + 2 : 510] - plain[0][middle + 2 :]).max() > 1e-3
  # Alone, the middle of a long sequence is what its window reads.
  starts = [i * 1536 // 7 for i in range(8)]
  (tmp_path / "new.csv").write_text(f"sequence\n{texts[0][starts[3] : starts[3] + 510]}\n")
  (alone,) = of_positions(
    predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "one.csv"), columns
  )
  np.testing.assert_allclose(
    windows[0][starts[3] + 200 : starts[3] + 300], alone[200:300], atol=1e-6
  )


def test_unknown_symbols_to_predict_are_counted_once(tables, tmp_path, caplog):
  write_finished_run(tmp_path / "run", config_for("classification", tables))
  (tmp_path / "new.csv").write_text(f"sequence\n{sequence(7)}Z{sequence(7)}\n{sequence(9)}\n")
  predict(tmp_path / "run", tmp_path / "new.csv", tmp_path / "out.csv")
  assert "1 symbols in 1 of 2 rows do not occur in training" in caplog.text


def test_the_mean_of_the_windows_decides_on_a_class(tables, tmp_path):
  write_finished_run(tmp_path / "run", config_for("classification", tables))
  assert read_model(tmp_path / "run").task.windows
  text = sequence(15)  # windows of the symbols 0 to 9 and 5 to 14
  for name, texts in (("whole", [text, "AC"]), ("parts", [text[:10], text[5:], "AC"])):
    (tmp_path / f"{name}.csv").write_text("sequence\n" + "\n".join(texts) + "\n")
  whole, parts = (
    predict(tmp_path / "run", tmp_path / f"{name}.csv", tmp_path / f"{name}_out.csv")
    for name in ("whole", "parts")
  )
  # The difference of two logits is the logarithm of the ratio of their probabilities.
  ours, first, second, short, same = (
    np.log(float(row["p_n"]) / float(row["p_y"]))
    for row in (whole[0], *parts[:2], whole[1], parts[2])
  )
  assert ours == pytest.approx((first + second) / 2, abs=1e-5)
  assert short == pytest.approx(same, abs=1e-6)


@pytest.mark.parametrize("kind", ["tagging", pytest.param("regression", marks=pytest.mark.slow)])
def test_a_run_scores_each_sequence_once(kind, tables, tmp_path):
  sizes = [f"--config.model.config.{name}={value}" for name, value in SIZES.items()]
  arguments = ["main", "--config=custom", f"--config.task.path={tables / f'{kind}.csv'}"]
  arguments += [
    f"--config.task.kind={kind}",
    "--config.task.long=windows",
    "--config.task.stride=3",
  ]
  arguments += [f"--config.task.max_length={MAX_LENGTH}", "--config.model.checkpoint=None"]
  arguments += ["--config.model.init=scratch", "--config.replicas=2", "--config.train.steps=2"]
  arguments += ["--config.train.batch_size=8", "--config.train.grad_accumulation=1"]
  with one_device():
    assert main([*arguments, *sizes, f"--workdir={tmp_path / 'run'}"]) == 0
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  arrays = np.load(tmp_path / "run" / FILE)
  assert arrays["test.units"].shape == (2, 3)
  assert result["test"]["samples"] == [3, 3]
  for labels, units in zip(arrays["test.labels"], arrays["test.units"], strict=True):
    if kind == "regression":
      assert labels.tolist() == [LENGTHS[unit] for unit in units]
    else:
      texts = ["".join("hs"[tag] for tag in row[row >= 0]) for row in labels]
      assert texts == [tags_of(SEQUENCES[unit]) for unit in units]


@pytest.mark.parametrize(
  ("fields", "key"),
  [
    ({"task.long": "whole"}, "task.long"),
    ({"task.long": "cut", "task.stride": 5}, "task.stride"),
    ({"task.stride": 11}, "task.stride"),
    ({"task.stride": 0}, "task.stride"),
  ],
)
def test_fields_that_do_not_go_together(fields, key, tables):
  config = config_for("tagging", tables)
  config.update_from_flattened_dict(fields)
  with pytest.raises(UserError, match=key):
    make_plan(config)


def test_other_tasks_have_no_windows(tmp_path):
  options = defaults.finetune().task
  options.long = "cut"  # as configs of older versions say
  assert not tasks.get("dna_h3", tmp_path, options).windows
  options.long = "windows"
  with pytest.raises(UserError, match="task.long"):
    tasks.get("dna_h3", tmp_path, options)


def test_a_run_of_another_task_predicts_without_windows(tables, tmp_path, monkeypatch, capsys):
  write_finished_run(tmp_path / "run", config_for("classification", tables))
  saved = read_model(tmp_path / "run")
  other = dataclasses.replace(saved, task=dataclasses.replace(saved.task, name="dna_h3"))
  monkeypatch.setattr("discipline_jax.predict.read_model", lambda _: other)
  arguments = ["main", "--config=custom", "--config.mode=predict", f"--workdir={tmp_path / 'run'}"]
  with one_device():
    assert main([*arguments, "--config.task.long=windows"]) == 2
    assert "task.long" in capsys.readouterr().err.splitlines()[-1]
    assert main([*arguments, "--config.task.long=cut", "--config.task.stride=3"]) == 2
    assert "task.stride" in capsys.readouterr().err.splitlines()[-1]
    (tmp_path / "new.csv").write_text("sequence\nAC\n")
    table = f"--config.task.path={tmp_path / 'new.csv'}"
    output = f"--config.predict.output={tmp_path / 'out.csv'}"
    assert main([*arguments, "--config.task.long=cut", table, output, "--dry-run"]) == 0


def test_pairs_have_no_windows(tmp_path):
  path = written(tmp_path, "a,b,label\nAC,CC,x\nCC,AC,y\n")
  task = read(path, sequence_column="a,b")
  with pytest.raises(UserError, match="task.long"):
    featurise(task.__class__(**{**vars(task), "windows": True}), make_vocabulary("AC", 9), 20)
