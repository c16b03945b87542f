"""Tests custom tasks with open alphabets: which symbols get an embedding row, and a whole run with unseen symbols."""

import csv
import json
import re

import numpy as np
import pytest
import tokenizers

from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.tokenizer import load_vocabulary, make_vocabulary
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks.features import featurise
from tests.tasks.own_tables import read, written
from tests.testdata import tiny
from tests.testdata.small_files import write_model
from tests.whole_runs import CONFIG, one_device


def planned(path, **task):
  """Returns the plan of a small custom run in which every token id has its own row."""
  config = tiny.get_config()
  config.task.update(name="custom", path=str(path), **task)
  config.train.batch_size = 4
  config.token_map.kind = "identity"
  return make_plan(config)


def symbol_rows(plan, replica=0):
  """Returns the row in the whole embedding table for each symbol; `?` is the unknown symbol."""
  table = plan.sub_tables[replica]
  rows = table.rows[table.lookup][3:]
  return dict(zip((*plan.task.alphabet.symbols, "?"), rows.tolist(), strict=True))


def warnings(caplog):
  """Returns the text of all warnings."""
  return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def unseen(caplog):
  """Returns the (number of unseen symbols, split) that each warning names."""
  found = (
    re.match(r"(\d+) symbols of the (\w+) part do not occur", line) for line in warnings(caplog)
  )
  return [(int(match[1]), match[2]) for match in found if match]


class TestOpenAlphabets:
  ROWS = "x y,0,train\ny z,1,train\nz,0,train\nx x,1,train\n"

  def test_symbols_missing_in_training_are_unknown_and_counted(self, tmp_path, caplog):
    others = "x q q,0,dev\nx y,1,dev\nr x r z x r,1,test\n"
    path = written(tmp_path, f"sequence,label,part\n{self.ROWS}{others}")
    plan = planned(path, splits="part", symbols="words")
    # The rows 0 to 4 are [PAD] [UNK] [CLS] [SEP] [MASK].
    assert symbol_rows(plan) == {"x": 5, "y": 6, "z": 7, "?": 1}
    np.testing.assert_array_equal(plan.features.symbols[4], [1, 3, 6, 6, 2, 0, 0, 0])
    np.testing.assert_array_equal(plan.features.symbols[6], [1, 6, 3, 6, 5, 3, 6, 2])
    assert unseen(caplog) == [(2, "validation"), (3, "test")] * plan.config.replicas

  def test_a_given_alphabet(self, tmp_path, caplog):
    rows = "ACA,0,train\nCC,1,train\nA,0,train\nC,0,train\nAGNC,1,dev\n"
    path = written(tmp_path, f"sequence,label,part\n{rows}")
    plan = planned(path, splits="part", alphabet="ACGT")
    # G is in the alphabet but not in training. N is in neither.
    assert symbol_rows(plan) == {"A": 5, "C": 6, "G": 1, "T": 1, "?": 1}
    np.testing.assert_array_equal(plan.features.symbols[4, :6], [1, 3, 5, 7, 4, 2])
    # Without a test split, validation is the test.
    assert unseen(caplog) == [(2, "validation"), (2, "test")] * plan.config.replicas

  def test_each_replica_has_the_symbols_of_its_own_training_split(self, tmp_path, caplog):
    """Each sample is a word that no other sample has, and one that all have."""
    path = written(
      tmp_path, "sequence,label\n" + "".join(f"w{i:02} a,{i % 2}\n" for i in range(40))
    )
    plan = planned(path, symbols="words")
    trained = [set(split["train"].tolist()) for split in plan.splits]
    assert [len(part) for part in trained] == [36, 36]
    assert trained[0] != trained[1]
    for replica, part in enumerate(trained):
      assert symbol_rows(plan, replica) == {
        "a": 5,
        **{f"w{i:02}": 6 + i if i in part else 1 for i in range(40)},
        "?": 1,
      }
    assert unseen(caplog) == [(2, "validation"), (2, "test")] * 2

  def test_mostly_unknown_symbols(self, tmp_path):
    """Each sequence is one word, so no other part has a word of training."""
    path = written(tmp_path, "sequence,label\n" + "".join(f"w{i:02},{i % 2}\n" for i in range(40)))
    with pytest.raises(UserError, match="2 of 2 .*validation.*task.symbols"):
      planned(path, symbols="words")

  def test_symbols_outside_the_train_fraction_are_unknown(self, tmp_path):
    path = written(
      tmp_path, "sequence,label\n" + "".join(f"w{i:02} a,{i % 2}\n" for i in range(40))
    )
    plan = planned(path, symbols="words", train_fraction=0.25)
    rows = symbol_rows(plan)
    assert {name for name, row in rows.items() if row != 1} == {
      "a",
      *(f"w{i:02}" for i in plan.splits[0]["train"]),
    }
    assert len(plan.splits[0]["train"]) == 9

  @pytest.mark.parametrize(
    ("sequences", "symbols", "expected"),
    [
      # Each symbol is a token of the tokenizer: it gets the id of this token.
      (["cat dog", "a mat"], "words", ["a", "cat", "dog", "mat"]),
      (["db", "ca"], "characters", ["a", "b", "c", "d"]),
      (["3 1", "2 0"], "integers", ["0", "1", "2", "3"]),
      # A symbol is unknown, or the same token as another, or several tokens: it gets the first ordinary id left over.
      (["cat qux", "dog"], "words", ["cat", "dog", 5]),
      (["aA", "b"], "characters", [7, "a", "b"]),
      (["10 1", "2"], "integers", ["1", "2", 5]),
      (["cat-dog", "a"], "words", ["a", 6]),
    ],
  )
  def test_ids_of_a_tokenizer(self, sequences, symbols, expected, tmp_path, caplog):
    write_model(tmp_path)
    vocabulary = load_vocabulary(tmp_path, 300)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    number = len(expected)
    odd = any(isinstance(token, int) for token in expected)
    expected = [
      token if isinstance(token, int) else tokenizer.token_to_id(token) for token in expected
    ]
    rows = "".join(f"{sequence},{i}\n" for i, sequence in enumerate(sequences))
    task = read(written(tmp_path, "sequence,label\n" + rows), symbols=symbols)
    caplog.clear()
    ids = featurise(task, vocabulary, 20).symbol_ids
    np.testing.assert_array_equal(ids, [0, 2, 3, *expected, 1])
    assert len(set(ids.tolist())) == len(ids)
    assert [re.findall(r"\d+", line)[:2] for line in warnings(caplog)] == [["1", f"{number}"]] * odd

  @pytest.mark.parametrize("count", [295, 296, 400])
  def test_more_symbols_than_ordinary_tokens(self, count, tmp_path):
    """The vocabulary has 300 tokens, five of them special."""
    write_model(tmp_path)
    vocabulary = load_vocabulary(tmp_path, 300)
    rows = "".join(f"n{i},{i % 2}\n" for i in range(count))
    task = read(written(tmp_path, "sequence,label\n" + rows), symbols="words")
    if count == 295:
      np.testing.assert_array_equal(
        np.sort(featurise(task, vocabulary, 20).symbol_ids[3:-1]), range(5, 300)
      )
      return
    with pytest.raises(UserError, match=f"{count} .*295 "):
      featurise(task, vocabulary, 20)

  def test_more_symbols_than_rows_of_a_new_model(self, tmp_path):
    rows = "".join(f"n{i},{i % 2}\n" for i in range(60))
    with pytest.raises(UserError, match="vocab_size = 64 .*60 .*65"):
      planned(written(tmp_path, "sequence,label\n" + rows), symbols="words")

  def test_70000_symbols_stay_apart(self, tmp_path):
    """Integers of two bytes cannot number so many symbols."""
    rows = "".join(f"{i},{i % 2}\n" for i in range(70_000))
    task = read(written(tmp_path, "sequence,label\n" + rows), symbols="integers")
    features = featurise(task, make_vocabulary(task.alphabet.symbols, 70_005), 3)
    np.testing.assert_array_equal(features.symbols[:, 1], np.arange(70_000) + 3)

  def test_stratified_splits(self, tmp_path):
    """Validation and test have three of the 60 samples each: two of the large class, one of the small."""
    path = written(
      tmp_path, "sequence,label\n" + "".join(f"A,{int(i % 3 == 0)}\n" for i in range(60))
    )
    plan = planned(path)
    for split in plan.splits:
      counts = {
        part: np.bincount(plan.features.targets["labels"][own], minlength=2).tolist()
        for part, own in split.items()
      }
      assert counts == {"train": [36, 18], "validation": [2, 1], "test": [2, 1]}

  def test_too_few_samples(self, tmp_path):
    path = written(tmp_path, "sequence,label\n" + "A,0\nC,1\n" * 5)
    with pytest.raises(UserError, match="10 samples .*11"):
      planned(path)


def test_a_run_and_its_predictions_for_unseen_words(tmp_path, caplog):
  """The value of a sentence is the share of the word `good`."""
  rng = np.random.default_rng(0)
  with (tmp_path / "mine.jsonl").open("w") as file:
    for _ in range(48):
      words = rng.choice(["good", "bad", "so", "so-so"], 6).tolist()
      row = {"text": " ".join(words), "value": words.count("good") / 6}
      file.write(json.dumps(row) + "\n")
  arguments = [
    *("main", CONFIG, f"--workdir={tmp_path / 'run'}"),
    "--config.task.sequence_column=text",
  ]
  training = [
    *("--config.task.name=custom", "--config.task.symbols=words", "--config.task.kind=regression"),
    *("--config.task.label_column=value", f"--config.task.path={tmp_path / 'mine.jsonl'}"),
    *("--config.replicas=1", "--config.train.steps=3", "--config.train.batch_size=8"),
  ]
  with one_device():
    assert main([*arguments, *training]) == 0
  new = [
    {"text": "good bad so"},
    {"text": ["good", "bad", "so"], "value": "ignored"},
    {"text": "fine poor"},
    {"text": "other words"},
    {"text": "good bad"},
    {"text": "good " * 100},
  ]
  lines = [json.dumps(row) for row in new]
  lines.insert(1, "")
  (tmp_path / "new.jsonl").write_text("\n".join(lines) + "\n")
  predicting = [
    *("--config.mode=predict", f"--config.task.path={tmp_path / 'new.jsonl'}"),
    f"--config.predict.output={tmp_path / 'out.csv'}",
  ]
  with one_device():
    assert main([*arguments, *predicting]) == 0
  with (tmp_path / "out.csv").open(newline="") as file:
    rows = list(csv.reader(file))
  assert rows[0] == ["line", "prediction"]
  assert [row[0] for row in rows[1:]] == ["1", "3", "4", "5", "6", "7"]
  values = [float(row[1]) for row in rows[1:]]
  assert np.isfinite(values).all()
  assert values[0] == values[1], "a list of words must be read as the words"
  assert values[2] == values[3], "all unseen words must be one symbol"
  assert values[2] != values[4]
  # Symbols, rows with such symbols, all rows.
  assert ["4", "2", "6"] in [re.findall(r"\d+", line) for line in warnings(caplog)]
