"""Tests that an exported folder, with its own tokenizer, computes from raw sequences what `predict` computes."""

import json
import random
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.special import softmax
from transformers import AutoTokenizer

from discipline_jax import defaults, models
from discipline_jax.errors import UserError
from discipline_jax.models.initialise import word_embeddings
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.runs.saved import read_model
from discipline_jax.tasks.token_maps import KINDS, choose_kind
from tests.finished_runs import write_finished_run
from tests.test_export import export, predict
from tests.testdata.small_files import write_data, write_model

LETTERS = "ACDEFGHI"
SIZES = {
  "vocab_size": 99,
  "hidden_size": 32,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
  "max_position_embeddings": 64,
}
# The tokens for padding, unknown symbols, start, end and masks, and their ids.
FAMILIES = {
  "bert": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4},
  "roberta": {"<pad>": 1, "<unk>": 3, "<s>": 0, "</s>": 2, "<mask>": 4},
  "albert": {"<pad>": 0, "<unk>": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4},
}
FAMILIES |= {"electra": FAMILIES["bert"], "distilbert": FAMILIES["bert"]}


def write_checkpoint(folder, family):
  """Writes a checkpoint without weights, whose vocabulary has letters, words and unused tokens."""
  folder.mkdir()
  special = FAMILIES[family]
  tokens = [*sorted(special, key=special.get), *LETTERS]
  others = range(SIZES["vocab_size"] - len(tokens))
  tokens += [f"[unused{i}]" if i % 2 else f"word{i}" for i in others]
  (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
  narrow = {"embedding_size": 16}
  own = {"roberta": {"type_vocab_size": 1}, "albert": narrow, "electra": narrow}
  fields = {"model_type": family, **SIZES, **own.get(family, {})}
  (folder / "config.json").write_text(json.dumps(fields))


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
  config.task.path = None if table is None else str(table)
  config.task.max_length = 20
  config.model.init = "scratch"
  config.model.checkpoint = None if checkpoint is None else str(checkpoint)
  config.train.batch_size = 8
  config.update_from_flattened_dict(fields)
  return config


def outputs_of(folder, texts):
  """Returns what a user of the folder gets for raw texts: its tokenizer, then the model, as transformers runs them."""
  tokenizer = AutoTokenizer.from_pretrained(folder)
  config = json.loads((folder / "config.json").read_text())
  assert tokenizer.pad_token_id == config["pad_token_id"]
  assert len(tokenizer) == config["vocab_size"]
  model = models.load(str(folder), models.Classifier(len(config["id2label"])))
  columns = zip(*texts, strict=True) if isinstance(texts[0], tuple) else [texts]
  inputs = {
    name: jnp.array(ids)
    for name, ids in tokenizer(*map(list, columns), padding=True, truncation=True).items()
  }
  assert ("token_type_ids" in inputs) == (config.get("type_vocab_size", 1) > 1)
  # In PyTorch, RoBERTa counts positions by the ids that are not padding.
  ids = inputs.pop("input_ids")
  np.testing.assert_array_equal(ids != tokenizer.pad_token_id, inputs["attention_mask"] == 1)
  outputs = jax.jit(lambda: model(ids, **inputs))()  # compiled as a whole, it takes less time
  return np.asarray(outputs), list(config["id2label"].values())


def check(workdir, texts, table, *arguments):
  """Exports a run, and compares what the folder gives for texts with what `predict` gives for a table.

  Returns the folder.
  """
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
def table(tmp_path_factory):
  """Returns the path of a table to train on."""
  return table_of(sequences_of(LETTERS), tmp_path_factory.mktemp("table") / "train.csv")


@pytest.mark.parametrize(
  ("family", "kind"),
  [
    *(("roberta", kind) for kind in KINDS),
    *(("bert", kind) for kind in ("random", "shift")),
    ("albert", "random_shift"),
    *((family, "random") for family in ("electra", "distilbert")),
  ],
)
def test_maps(family, kind, table, tmp_path):
  write_checkpoint(tmp_path / "model", family)
  pad, unknown, *_ = FAMILIES[family].values()
  fields = {"token_map.kind": kind}
  if kind == "shift":  # the first letter, number 5, gets the row of padding
    fields["token_map.shift"] = SIZES["vocab_size"] - 5 + pad
  if kind == "table":  # several tokens have one row, and some have rows of special tokens
    fields["token_map.path"] = str(tmp_path / "map.npy")
    np.save(tmp_path / "map.npy", np.random.default_rng(0).integers(0, 9, SIZES["vocab_size"]))
  plan = write_finished_run(tmp_path / "run", config_of(tmp_path / "model", table, **fields))
  sequences = [*sequences_of(LETTERS, 4), "ACZA", "ACDEFGHIACDEFGHIACDEFGHI"]
  folder = check(tmp_path / "run", sequences, table_of(sequences, tmp_path / "new.csv"))
  tokenizer = AutoTokenizer.from_pretrained(folder)
  for one in sequences:
    assert tokenizer(" ".join(one)) == tokenizer(one)
  ids = json.loads((folder / "input_ids.json").read_text())
  assert [ids[letter] for letter in LETTERS] == [*range(5, 5 + len(LETTERS))]
  assert tokenizer("ACZ")["input_ids"][1:4] == [ids["A"], ids["C"], unknown]
  if kind == "identity":
    saved = read_model(tmp_path / "run")
    params = saved.whole_params(saved.best, None, plan.model.config)
    table = load_file(folder / "model.safetensors")["roberta.embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(table, word_embeddings(params)["weight"])
  if kind == "shift":
    assert plan.sub_tables[0].rows[plan.sub_tables[0].lookup[3]] == tokenizer.pad_token_id


SPELLINGS = {
  "words": ({"task.symbols": "words"}, ["CC", "(", "[CLS]", "é", "N+", "[UNK]"], " "),
  "integers": ({"task.symbols": "integers"}, ["60", "-3", "0", "128"], ","),
  "kmers": ({"task.symbols": "kmers", "task.k": 3}, ["A", "C", "^", "]"], ""),
  "smiles": ({"task.symbols": "smiles"}, ["Cl", "C", "[CLS]", "[nH+]", "%12", "(", "[UNK]"], ""),
  "upper": ({"task.case": "upper"}, [*"acGTß"], ""),
}
TEXTS = {
  "words": ["CC ( [CLS]  N+ cc", "é [MASK] N+ [UNK] [PAD] CC"],
  "integers": ["060 -3, +128 7 -0", "[60, 0, 128]"],
  "kmers": ["ACA^C]", "ACANACAA]"],
  "smiles": ["C[CLS](Cl)lC%12[PAD]", "[nH+]Br[UNK][MASK]CC"],
  "upper": ["acgtACGT", "AßẞACGT"],
}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_spellings(kind, tmp_path):
  """Some symbols are spelt like special tokens, some are unknown, and a long sequence is cut."""
  fields, symbols, between = SPELLINGS[kind]
  sequences = sequences_of(symbols, between=between)
  table = table_of(sequences, tmp_path / "train.csv", ("a", "b"))
  config = config_of(None, table, **fields, **{"task.max_length": 9})
  config.token_map.kind = "random_shift"
  config.model.config.update(SIZES)
  write_finished_run(tmp_path / "run", config)
  texts = [*TEXTS[kind], sequences[0]]
  folder = check(tmp_path / "run", texts, table_of(texts, tmp_path / "new.csv"))
  fields = json.loads((folder / "config.json").read_text())
  # The vocabulary is now of the task's discipline.
  vocabulary = load_vocabulary(folder, fields["vocab_size"])
  names = json.loads((tmp_path / "run" / "model" / "task.json").read_text())["alphabet"]["symbols"]
  assert choose_kind(vocabulary, names)[0] == "identity"
  ids = json.loads((folder / "input_ids.json").read_text())
  assert [*map(vocabulary.symbol_id, names)] == [ids[name] for name in names]
  assert len(set(ids.values())) == len(ids)
  tokenizer = AutoTokenizer.from_pretrained(folder)
  for text in texts:
    assert tokenizer(text)["input_ids"] == tokenizer(text, truncation=True)["input_ids"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
  """Returns the small files of all tasks, and a checkpoint of a BERT of one layer that knows letters and words."""
  folder = tmp_path_factory.mktemp("data")
  write_data(folder)
  write_model(folder / "model")
  return folder


def task_config(name, data, **fields):
  config = config_of(data / "model", None, **fields)
  config.data_dir = str(data)
  config.task.name = name
  return config


TASKS = {
  "dna_splice": ["acgtNNu", "ACGTRSacgtacgtacgtacgtacgtacgt"],
  "protein_stability": ["MKVOUBZX*-J", "acdefghiklmnpqrstvwy"],
  "music_composer": ["60 62 64", "[21, 108, 60, 60]"],
}


@pytest.mark.parametrize("name", TASKS)
def test_alphabets_of_tasks(name, data, tmp_path):
  kind = "random_shift" if name == "dna_splice" else "random"
  write_finished_run(tmp_path / "run", task_config(name, data, **{"token_map.kind": kind}))
  folder = check(tmp_path / "run", TASKS[name], table_of(TASKS[name], tmp_path / "new.csv"))
  fields = json.loads((folder / "config.json").read_text())
  is_value = name == "protein_stability"
  assert fields["problem_type"] == ("regression" if is_value else "single_label_classification")
  tokenizer = AutoTokenizer.from_pretrained(folder)
  if name == "music_composer":  # its inputs have no special tokens
    assert tokenizer("60 21")["input_ids"] == [128 + 60, 128 + 21]


@pytest.mark.parametrize(
  ("name", "columns", "kind"),
  [("glue_cola", "a", "identity"), ("glue_cola", "a", "shift"), ("glue_stsb", "a,b", "shift")],
)
def test_texts(name, columns, kind, data, tmp_path):
  config = task_config(name, data, **{"token_map.kind": kind, "token_map.shift": 3})
  write_finished_run(tmp_path / "run", config)
  texts = [("The cat sat, on the mat.", "dog"), ("a xyzzy [CLS]", "very old cat " * 9)]
  (tmp_path / "new.csv").write_text("a,b\n" + "".join(f'"{a}","{b}"\n' for a, b in texts))
  inputs = texts if columns == "a,b" else [a for a, _ in texts]
  column = f"--config.task.sequence_column={columns}"
  folder = check(tmp_path / "run", inputs, tmp_path / "new.csv", column)
  ids = json.loads((folder / "input_ids.json").read_text())
  assert ids == [*range(len(ids))]
  before, after = (
    json.loads((one / "tokenizer.json").read_text()) for one in (data / "model", folder)
  )
  assert before == after


def test_padding_that_the_config_does_not_know_and_a_symbol_that_has_its_id(data, tmp_path):
  """The pitch 22 and padding both have the id 150, while config.json says that padding has the id 1."""
  checkpoint = tmp_path / "model"
  shutil.copytree(data / "model", checkpoint)
  fields = json.loads((checkpoint / "config.json").read_text())
  fields |= {"model_type": "roberta", "type_vocab_size": 1, "pad_token_id": 1}
  (checkpoint / "config.json").write_text(json.dumps(fields))
  fields = json.loads((checkpoint / "tokenizer.json").read_text())
  ids = fields["model"]["vocab"]
  other = next(token for token, i in ids.items() if i == 150)
  ids["[PAD]"], ids[other] = 150, 0
  (checkpoint / "tokenizer.json").write_text(json.dumps(fields))
  config = task_config("music_composer", data, **{"model.checkpoint": str(checkpoint)})
  config.token_map.kind = "random"
  write_finished_run(tmp_path / "run", config)
  texts = ["22 23 24 22", "60 22"]
  folder = check(tmp_path / "run", texts, table_of(texts, tmp_path / "new.csv"))
  ids = json.loads((folder / "input_ids.json").read_text())
  fields = json.loads((folder / "config.json").read_text())
  assert (ids["[PAD]"], ids["22"], ids["23"]) == (150, 300, 151)
  assert (fields["vocab_size"], fields["pad_token_id"]) == (301, 150)
  assert models.read_config(folder).max_length == 510


def test_an_exported_model_is_fine_tuned_again(table, tmp_path):
  write_checkpoint(tmp_path / "model", "bert")
  config = config_of(tmp_path / "model", table, **{"token_map.kind": "random_shift"})
  write_finished_run(tmp_path / "run", config)
  assert export(tmp_path / "run", tmp_path / "first") == 0
  plan = write_finished_run(
    tmp_path / "again" / "run", config_of(tmp_path / "first", table, **{"model.init": "pretrained"})
  )
  assert plan.token_map == "identity"
  texts = ["ACDE", "FFGHZ"]
  folder = check(tmp_path / "again" / "run", texts, table_of(texts, tmp_path / "new.csv"))
  names = ("tokenizer.json", "tokenizer_config.json", "input_ids.json")
  assert [(folder / name).read_text() for name in names] == [
    (tmp_path / "first" / name).read_text() for name in names
  ]


def test_pipeline(table, tmp_path):
  """PyTorch computes the outputs of the pipeline, which must be what `predict` writes."""
  pytest.importorskip("torch")
  from transformers import pipeline

  write_checkpoint(tmp_path / "model", "roberta")
  shift = SIZES["vocab_size"] - 5 + FAMILIES["roberta"]["<pad>"]
  fields = {"token_map.kind": "shift", "token_map.shift": shift}
  config = config_of(tmp_path / "model", table, **fields)
  write_finished_run(tmp_path / "run", config)
  assert export(tmp_path / "run", tmp_path / "out") == 0
  sequences = [*sequences_of(LETTERS, 5), "ACZA"]
  rows = predict(
    tmp_path / "run", table_of(sequences, tmp_path / "new.csv"), tmp_path / "new_out.csv"
  )
  classify = pipeline("text-classification", str(tmp_path / "out"), top_k=None)
  for between in ("", " "):
    for row, found in zip(
      rows, classify([between.join(one) for one in sequences], batch_size=3), strict=True
    ):
      for one in found:
        assert one["score"] == pytest.approx(float(row[f"p_{one['label']}"]), abs=1e-5)


class TestRefused:
  @pytest.fixture
  def run(self, table, tmp_path):
    write_checkpoint(tmp_path / "model", "bert")
    write_finished_run(tmp_path / "run", config_of(tmp_path / "model", table))
    return tmp_path / "run"

  @pytest.mark.parametrize("name", ["run", "run/../run", "model"])
  def test_an_output_that_would_replace_what_the_run_needs(self, name, run, capsys):
    before = {path: path.read_bytes() for path in run.parent.rglob("*") if path.is_file()}
    assert export(run, run.parent / name) == 2
    assert "export.output" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.parent.rglob("*") if path.is_file()} == before

  def test_a_left_to_right_model(self, run, capsys):
    """Refused: transformers' classifier reads the first token, which in a left-to-right model has seen no other."""
    path = run.parent / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_decoder": True}))
    assert export(run, run.parent / "out") == 2
    assert "mode=predict" in capsys.readouterr().err
    assert not (run.parent / "out").exists()

  def test_a_workdir_in_place_of_its_export(self, run):
    with pytest.raises(UserError, match=f"{run} .*mode=export"):
      models.load(str(run))
