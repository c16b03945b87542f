"""Which symbols of one's own tables have rows of their own, and a whole run with predictions for others."""

import csv
import json

import numpy as np
import pytest
import tokenizers

from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.tokenizer import load_vocabulary, make_vocabulary
from discipline_jax.plan import make_plan
from discipline_jax.tasks.features import featurise
from tests.runs import CONFIG, one_device
from tests.tasks.own_tables import read, written
from tests.testdata import tiny
from tests.testdata.small_files import write_model


def planned(path, **task):
  """The plan of a small custom run, with every token in its own row."""
  config = tiny.get_config()
  config.task.update(name="custom", path=str(path), **task)
  config.train.batch_size = 4
  config.token_map.kind = "identity"
  return make_plan(config)


def symbol_rows(plan, replica=0):
  """The row of the whole embedding table that each symbol has, the unknown one last."""
  table = plan.sub_tables[replica]
  rows = table.rows[table.lookup][3:]
  return dict(zip((*plan.task.alphabet.symbols, "?"), rows.tolist(), strict=True))


class TestOpenAlphabets:
  ROWS = "x y,0,train\ny z,1,train\nz,0,train\nx x,1,train\n"

  def test_symbols_that_training_lacks_are_counted_and_unknown(self, tmp_path, caplog):
    others = "x q q,0,dev\nx y,1,dev\nr x r z r,1,test\n"
    path = written(tmp_path, f"sequence,label,part\n{self.ROWS}{others}")
    plan = planned(path, splits="part", symbols="words")
    # after [PAD] [UNK] [CLS] [SEP] [MASK]
    assert symbol_rows(plan) == {"x": 5, "y": 6, "z": 7, "?": 1}
    np.testing.assert_array_equal(plan.features.symbols[4], [1, 3, 6, 6, 2, 0, 0])
    np.testing.assert_array_equal(plan.features.symbols[6], [1, 6, 3, 6, 5, 6, 2])
    for message in (
      "2 symbols of the validation part do not occur in training",
      "3 symbols of the test part do not occur in training",
    ):
      assert [record.message for record in caplog.records].count(message) == plan.config.replicas
    assert "symbols of the train part" not in caplog.text

  def test_a_given_alphabet(self, tmp_path, caplog):
    rows = "ACA,0,train\nCC,1,train\nA,0,train\nC,0,train\nAGN,1,dev\n"
    path = written(tmp_path, f"sequence,label,part\n{rows}")
    plan = planned(path, splits="part", alphabet="ACGT")
    # G is in the alphabet but not in training, N is in neither
    assert symbol_rows(plan) == {"A": 5, "C": 6, "G": 1, "T": 1, "?": 1}
    np.testing.assert_array_equal(plan.features.symbols[4, :5], [1, 3, 5, 7, 2])
    assert "2 symbols of the validation part do not occur in training" in caplog.text

  def test_each_replica_has_the_symbols_of_its_own_training_part(self, tmp_path, caplog):
    """Each sample has a word of its own."""
    path = written(tmp_path, "sequence,label\n" + "".join(f"w{i:02},{i % 2}\n" for i in range(40)))
    plan = planned(path, symbols="words")
    trained = [set(split["train"].tolist()) for split in plan.splits]
    assert [len(part) for part in trained] == [36, 36]
    assert trained[0] != trained[1]
    for replica, part in enumerate(trained):
      assert symbol_rows(plan, replica) == {
        **{f"w{i:02}": 5 + i if i in part else 1 for i in range(40)},
        "?": 1,
      }
    assert caplog.text.count("2 symbols of the validation part do not occur in training") == 2
    assert caplog.text.count("2 symbols of the test part do not occur in training") == 2

  def test_train_fraction_decides_too(self, tmp_path):
    path = written(tmp_path, "sequence,label\n" + "".join(f"w{i:02},{i % 2}\n" for i in range(40)))
    plan = planned(path, symbols="words", train_fraction=0.25)
    rows = symbol_rows(plan)
    assert {name for name, row in rows.items() if row != 1} == {
      f"w{i:02}" for i in plan.splits[0]["train"]
    }
    assert len(plan.splits[0]["train"]) == 9

  @pytest.mark.parametrize(
    ("sequences", "symbols", "expected"),
    [
      # the tokenizer knows them one by one: its own ids
      (["cat dog", "a mat"], "words", ["a", "cat", "dog", "mat"]),
      (["db", "ca"], "characters", ["a", "b", "c", "d"]),
      (["3 1", "2 0"], "integers", ["0", "1", "2", "3"]),
      # it knows one of them not at all, or two as the same, or in pieces: the first ordinary id that is left
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
    said = f"1 of {len(expected)} symbols are no tokens of the model"
    odd = any(isinstance(token, int) for token in expected)
    expected = [
      token if isinstance(token, int) else tokenizer.token_to_id(token) for token in expected
    ]
    rows = "".join(f"{sequence},{i}\n" for i, sequence in enumerate(sequences))
    task = read(written(tmp_path, "sequence,label\n" + rows), symbols=symbols)
    ids = featurise(task, vocabulary, 20).symbol_ids
    np.testing.assert_array_equal(ids, [0, 2, 3, *expected, 1])
    assert len(set(ids.tolist())) == len(ids)
    assert (said in caplog.text) == odd

  @pytest.mark.parametrize("count", [295, 296, 400])
  def test_more_symbols_than_the_vocabulary_has(self, count, tmp_path):
    """It has 300 tokens, five of them special."""
    write_model(tmp_path)
    vocabulary = load_vocabulary(tmp_path, 300)
    rows = "".join(f"n{i},{i % 2}\n" for i in range(count))
    task = read(written(tmp_path, "sequence,label\n" + rows), symbols="words")
    if count == 295:
      np.testing.assert_array_equal(
        np.sort(featurise(task, vocabulary, 20).symbol_ids[3:-1]), range(5, 300)
      )
      return
    with pytest.raises(
      UserError, match=f"the task has {count} symbols, but the model's vocabulary 295 ordinary"
    ):
      featurise(task, vocabulary, 20)

  def test_more_symbols_than_a_new_model_has(self, tmp_path):
    rows = "".join(f"n{i},{i % 2}\n" for i in range(60))
    with pytest.raises(
      UserError, match="vocab_size = 64 is less than the task's 60 symbols .* at least 65"
    ):
      planned(written(tmp_path, "sequence,label\n" + rows), symbols="words")

  def test_70000_symbols_stay_apart(self, tmp_path):
    """More than two bytes can number."""
    rows = "".join(f"{i},{i % 2}\n" for i in range(70_000))
    task = read(written(tmp_path, "sequence,label\n" + rows), symbols="integers")
    features = featurise(task, make_vocabulary(task.alphabet.symbols, 70_005), 3)
    np.testing.assert_array_equal(features.symbols[:, 1], np.arange(70_000) + 3)

  def test_stratified_parts(self, tmp_path):
    """Of 60 samples three are held out for each part: two of the large class, one of the small."""
    path = written(
      tmp_path, "sequence,label\n" + "".join(f"A,{int(i % 3 == 0)}\n" for i in range(60))
    )
    plan = planned(path)
    for split in plan.splits:
      counts = {
        part: np.bincount(plan.features.labels[own], minlength=2).tolist()
        for part, own in split.items()
      }
      assert counts == {"train": [36, 18], "validation": [2, 1], "test": [2, 1]}

  def test_too_few_samples(self, tmp_path):
    path = written(tmp_path, "sequence,label\n" + "A,0\nC,1\n" * 5)
    with pytest.raises(UserError, match="10 samples cannot be split 90/5/5; give at least 11"):
      planned(path)


def test_a_run_and_its_predictions_for_words_that_it_did_not_see(tmp_path, caplog):
  """Values of sentences: the share of the word `good`."""
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
  assert values[0] == values[1], "a list of words is the words"
  assert values[2] == values[3], "all unseen words are one symbol"
  assert values[2] != values[4]
  assert "4 symbols in 2 of 6 rows do not occur in training" in caplog.text
