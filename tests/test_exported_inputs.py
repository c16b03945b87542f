"""Tests that an exported folder, with its own tokenizer, computes from raw sequences what `predict` computes."""

import json
import random
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from transformers import AutoTokenizer

from discipline_jax import defaults, models
from discipline_jax.main import main
from discipline_jax.tasks.token_maps import KINDS, choose_kind
from discipline_jax.models.tokenizer import load_vocabulary
from tests.finished_runs import write_finished_run
from tests.test_export import export, predict
from tests.testdata.small_files import write_data, write_model
from tests.whole_runs import one_device

LETTERS = "ACDEFGHI"
FAMILIES = {
  "bert_relu": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
  "roberta_gelu": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
  "albert_groups": ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"],
}


PADDING = {"bert_relu": 0, "roberta_gelu": 1, "albert_groups": 0}
UNKNOWN = {"bert_relu": 1, "roberta_gelu": 3, "albert_groups": 1}


def checkpoint_of(family, testdata, folder, letters=LETTERS):
  """A checkpoint with random weights, whose vocabulary has letters, words and unused tokens."""
  checkpoint = folder / family
  shutil.copytree(testdata / "families" / family, checkpoint)
  size = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
  tokens = [*FAMILIES[family], *letters]
  others = range(size - len(tokens))
  tokens += [f"[unused{i}]" if i % 2 else f"word{i}" for i in others]
  (checkpoint / "vocab.txt").write_text("\n".join(tokens) + "\n")
  return checkpoint, tokens


def table_of(sequences, path, labels=("a", "b", "c")):
  rows = "".join(f'"{one}",{labels[i % len(labels)]}\n' for i, one in enumerate(sequences))
  path.write_text("sequence,label\n" + rows)
  return path


def sequences_of(symbols, count=48, longest=20, between=""):
  draw = random.Random(0)
  return [between.join(draw.choices(symbols, k=draw.randint(3, longest))) for _ in range(count)]


def config_of(checkpoint, table, **fields):
  config = defaults.finetune()
  config.task.name = "custom"
  config.task.path = str(table)
  config.task.max_length = 20
  config.model.checkpoint = str(checkpoint)
  config.train.batch_size = 8
  config.update_from_flattened_dict(fields)
  return config


def outputs_of(folder, texts):
  """What a user of the folder gets for raw texts: tokens by its tokenizer, then the model, as transformers runs it."""
  tokenizer = AutoTokenizer.from_pretrained(folder)
  config = json.loads((folder / "config.json").read_text())
  assert tokenizer.pad_token_id == config["pad_token_id"]
  assert len(tokenizer) == config["vocab_size"]
  model = models.load(str(folder), models.Classifier(len(config["id2label"])))
  columns = zip(*texts, strict=True) if isinstance(texts[0], tuple) else [texts]
  inputs = {
    name: jnp.array(ids) for name, ids in tokenizer(*map(list, columns), padding=True).items()
  }
  assert ("token_type_ids" in inputs) == (config["type_vocab_size"] > 1)
  # In PyTorch, RoBERTa counts positions by the ids that are not padding.
  ids = inputs.pop("input_ids")
  np.testing.assert_array_equal(ids != tokenizer.pad_token_id, inputs["attention_mask"] == 1)
  return np.asarray(model(ids, **inputs)), list(config["id2label"].values())



def check(workdir, texts, table, *arguments):
  """Exports a run, compares what the folder gives for texts with what `predict` gives for a table; returns the folder."""
  folder = workdir.parent / "out"
  assert export(workdir, folder) == 0
  outputs, names = outputs_of(folder, texts)
  rows = predict(workdir, table, workdir.parent / "out.csv", *arguments)
  if len(names) == 1:
    expected = np.array([[float(row["prediction"])] for row in rows])
  else:
    outputs = softmax(outputs, -1)
    expected = np.array([[float(row[f"p_{name}"]) for name in names] for row in rows])
  np.testing.assert_allclose(outputs, expected, atol=1e-5)
  assert expected.std(0).max() > 1e-3  # a hundred times the tolerance
  return folder


@pytest.fixture(scope="module")
def families(testdata, tmp_path_factory):
  """A checkpoint of each family with its tokens, and a table to train on."""
  folder = tmp_path_factory.mktemp("families")
  table = table_of(sequences_of(LETTERS), folder / "train.csv")
  return {name: (*checkpoint_of(name, testdata, folder), table) for name in FAMILIES}


@pytest.mark.parametrize(
  ("family", "kind"),
  [
    *(("roberta_gelu", kind) for kind in KINDS),
    *(("bert_relu", kind) for kind in ("random", "shift")),
    ("albert_groups", "random_shift"),
  ],
)
def test_maps(family, kind, families, tmp_path):
  checkpoint, tokens, table = families[family]
  size = len(tokens)
  fields = {"token_map.kind": kind}
  if kind == "shift":  # the first letter, number 5, gets the row of padding
    fields["token_map.shift"] = size - 5 + tokens.index(FAMILIES[family][PADDING[family]])
  if kind == "table":  # several tokens have one row, and some have rows of special tokens
    fields["token_map.path"] = str(tmp_path / "map.npy")
    np.save(tmp_path / "map.npy", np.random.default_rng(0).integers(0, 9, size))
  plan = write_finished_run(tmp_path / "run", config_of(checkpoint, table, **fields))
  sequences = [*sequences_of(LETTERS, 4), "ACZA", "ACDEFGHIACDEFGHIACDEFGHI"]
  folder = check(tmp_path / "run", sequences, table_of(sequences, tmp_path / "new.csv"))
  tokenizer = AutoTokenizer.from_pretrained(folder)
  for one in sequences:
    assert tokenizer(" ".join(one)) == tokenizer(one)
  ids = json.loads((folder / "input_ids.json").read_text())
  assert [ids[letter] for letter in LETTERS] == [tokens.index(letter) for letter in LETTERS]
  assert tokenizer("ACZ")["input_ids"][1:4] == [ids["A"], ids["C"], ids[FAMILIES[family][UNKNOWN[family]]]]
  if kind == "shift":
    assert plan.sub_tables[0].rows[plan.sub_tables[0].lookup[3]] == tokenizer.pad_token_id
