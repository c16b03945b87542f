"""Tests runs that answer for each symbol, or with several labels: trained, predicted, exported, and in PyTorch."""

import json
import random

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.report.predictions import read_predictions
from discipline_jax.report.tree import Run
from discipline_jax.runs.predictions import FILE
from tests.finished_runs import write_finished_run
from tests.test_export import export, predict
from tests.test_exported_inputs import SIZES, config_of, write_checkpoint
from tests.whole_runs import one_device

LETTERS = "ACDE"
draw = random.Random(1)
SEQUENCES = ["".join(draw.choices(LETTERS, k=draw.randint(3, 17))) for _ in range(60)]


def label_of(kind, sequence):
  if kind == "tagging":
    return "".join("hs"[one in "AC"] for one in sequence)
  if kind == "position_regression":
    return " ".join(str(LETTERS.find(one)) for one in sequence)
  return ";".join(sorted({*sequence[:2]}))


def table_of(kind, path, sequences=SEQUENCES):
  rows = "".join(f"{one},{label_of(kind, one)}\n" for one in sequences)
  path.write_text("sequence,label\n" + rows)
  return path


def small_config(kind, table, **fields):
  config = config_of(None, table, **{"task.kind": kind, **fields})
  config.token_map.kind = "random_shift"
  config.model.config.update(SIZES)
  return config


KINDS = ("tagging", "position_regression", "multilabel")


@pytest.fixture(scope="module", params=KINDS)
def finished(request, tmp_path_factory):
  """Returns a run that was not trained, and its kind."""
  folder = tmp_path_factory.mktemp(request.param)
  kind = request.param
  table = table_of(kind, folder / "train.csv")
  write_finished_run(folder / "run", small_config(kind, table))
  return kind, folder / "run"


# The third one is longer than the 18 symbols that are read.
NEW = ["ACDEACDE", "ED", "CAC" * 7, "ACZA"]


def of_positions(rows, columns):
  """Returns the numbers in some columns of each sequence, by the line of its row."""
  found: dict[str, list] = {}
  for row in rows:
    found.setdefault(row["line"], []).append([float(row[name]) for name in columns])
  return [np.array(one) for one in found.values()]


def logits_of(folder, kind, texts):
  """Returns what transformers' model, in PyTorch, gives for raw texts by its own tokenizer."""
  torch = pytest.importorskip("torch")
  transformers = pytest.importorskip("transformers")
  family = {
    "multilabel": transformers.AutoModelForSequenceClassification,
  }.get(kind, transformers.AutoModelForTokenClassification)
  model, loading = family.from_pretrained(folder, output_loading_info=True)
  assert not any(loading[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  with torch.no_grad():
    return model.config, [
      model(**tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in texts
    ]


def test_predictions_are_those_of_pytorch(finished, tmp_path):
  kind, workdir = finished
  table = table_of(kind, tmp_path / "new.csv", NEW)
  rows = predict(workdir, table, tmp_path / "out.csv")
  assert export(workdir, tmp_path / "export") == 0
  config, logits = logits_of(tmp_path / "export", kind, NEW)
  names = [config.id2label[i] for i in range(config.num_labels)]
  if kind == "multilabel":
    assert config.problem_type == "multi_label_classification"
    ours = np.array([[float(row[f"p_{name}"]) for name in names] for row in rows])
    np.testing.assert_allclose(ours, 1 / (1 + np.exp(-np.array(logits))), atol=1e-5)
    for row, one in zip(rows, logits, strict=True):
      assert row["prediction"] == (";".join(np.array(names)[one > 0]) or ";")
    return
  columns = ["prediction"] if kind == "position_regression" else [f"p_{name}" for name in names]
  ours = of_positions(rows, columns)
  for own, one, text in zip(ours, logits, NEW, strict=True):
    theirs = one[1:-1]  # without [CLS] and [SEP]
    assert len(theirs) == min(len(text), 18)
    if kind == "tagging":
      theirs = np.exp(theirs) / np.exp(theirs).sum(-1, keepdims=True)
    np.testing.assert_allclose(own, theirs, atol=1e-5)
  if kind == "tagging":
    labels = [row["prediction"] for row in rows]
    assert labels == [names[i] for one in logits for i in one[1:-1].argmax(-1)]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["left_to_right", "roberta", "albert", "electra", "distilbert"])
def test_other_families(family, tmp_path):
  """A left-to-right model is exported, too: each symbol is answered at its own token."""
  write_checkpoint(tmp_path / "model", "bert" if family == "left_to_right" else family)
  if family == "left_to_right":
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_decoder": True}))
  table = table_of("tagging", tmp_path / "train.csv")
  config = config_of(tmp_path / "model", table, **{"task.kind": "tagging"})
  write_finished_run(tmp_path / "run", config)
  test_predictions_are_those_of_pytorch(("tagging", tmp_path / "run"), tmp_path)


def test_a_string_a_row(finished, tmp_path):
  kind, workdir = finished
  table = table_of(kind, tmp_path / "new.csv", NEW)
  rows = predict(workdir, table, tmp_path / "out.csv") if kind != "multilabel" else []
  arguments = [
    "main",
    "--config=custom",
    "--config.mode=predict",
    f"--workdir={workdir}",
    f"--config.task.path={table}",
    f"--config.predict.output={tmp_path / 'texts.csv'}",
    "--config.predict.format=string",
  ]
  with one_device():
    code = main(arguments)
  if kind == "multilabel":
    assert code == 2
    assert not (tmp_path / "texts.csv").exists()
    return
  assert code == 0
  lines = (tmp_path / "texts.csv").read_text().splitlines()[1:]
  assert [line.split(",")[0] for line in lines] == ["2", "3", "4", "5"]
  if kind == "tagging":
    for line, text in zip(lines, NEW, strict=True):
      own = "".join(row["prediction"] for row in rows if row["line"] == line.split(",")[0])
      assert line.split(",")[1] == own
      assert len(own) == min(len(text), 18) == len(line.split(",")[2].split())
  for number, text in enumerate(NEW, 2):
    symbols = [row["symbol"] for row in rows if row["line"] == str(number)]
    assert "".join(symbols) == text[:18]  # the others are cut off


def train(kind, folder, *arguments):
  table = table_of(kind, folder / "train.csv")
  sizes = [f"--config.model.config.{name}={value}" for name, value in SIZES.items()]
  with one_device():
    return main(
      [
        "main",
        "--config=custom",
        f"--config.task.path={table}",
        f"--config.task.kind={kind}",
        "--config.model.checkpoint=None",
        "--config.model.init=scratch",
        "--config.train.steps=4",
        "--config.train.batch_size=8",
        "--config.train.grad_accumulation=2",
        f"--workdir={folder / 'run'}",
        *sizes,
        *arguments,
      ]
    )


@pytest.mark.parametrize(
  "kind", ["tagging", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])]
)
def test_a_run_scores_what_its_predictions_say(kind, tmp_path):
  """The scores of two replicas are found again from predictions.npz, by the code of the report."""
  assert train(kind, tmp_path, "--config.replicas=2", "--config.task.max_length=12") == 0
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  assert len(result["test"]["runs"]) == 2
  for score, own in zip(result["test"]["runs"], result["test"]["measures"], strict=True):
    if kind != "position_regression":
      assert own[result["metric"]] == pytest.approx(score)
  run = Run("run", tmp_path / "run", "finetune", result, {}, {})
  for part in ("validation", "test"):
    assert read_predictions(run, part).seeds.tolist() == [0, 1]
  arrays = np.load(tmp_path / "run" / FILE)
  labels, predicted = arrays["test.labels"], arrays["test.predicted"]
  assert labels.shape == predicted.shape
  assert labels.shape[:2] == arrays["test.units"].shape == (2, 3)


@pytest.mark.parametrize("kind", ["tagging", "position_regression"])
def test_hilbert_cnn_answers_for_whole_sequences(kind, tmp_path):
  config = config_of(None, table_of(kind, tmp_path / "train.csv"), **{"task.kind": kind})
  config.model.config.model_type = "hilbert_cnn"
  with pytest.raises(UserError, match="hilbert_cnn"):
    make_plan(config)


def test_a_part_without_a_scored_symbol(tmp_path):
  parts = ["train"] * 20 + ["validation"] * 2 + ["test"]
  rows = "".join(f"{'AC' * 9},{'hs' * 4}{'x' * 10},{part}\n" for part in parts[:-1])
  (tmp_path / "a.csv").write_text("sequence,label,part\n" + rows + f"ACDE,xxxx,{parts[-1]}\n")
  fields = {"task.splits": "part", "task.ignore_label": "x"}
  config = small_config("tagging", tmp_path / "a.csv", **fields)
  with pytest.raises(UserError, match=r"\btest\b.*task\.max_length"):
    make_plan(config)
