"""Tests pairs of sequences in a user's own table: read, encoded, predicted and exported."""

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.features import CLS, SEP, featurise
from tests.finished_runs import write_finished_run
from tests.tasks.own_tables import read, written
from tests.test_exported_inputs import SIZES, check, config_of, sequences_of

TABLE = "a,b,label\nAC,CCA,yes\nACCC,A,no\n"


def encoded(path, max_length=20, **fields):
  task = read(path, sequence_column="a,b", **fields)
  return featurise(task, make_vocabulary("AC", 9), max_length)


@pytest.mark.parametrize(
  ("name", "content", "fields"),
  [
    ("a.csv", TABLE, {}),
    ("a.csv", TABLE.replace("AC,CCA", "A C,C C A"), {}),
    ("a.jsonl", '{"a": ["A", "C"], "b": "CCA", "label": 1}\n{"b": "A", "a": "ACCC", "label": 0}\n', {}),
    ("a.tsv", "a\tb\tlabel\nA C\tC C A\t1\nA C C C\tA\t0\n", {"symbols": "words"}),
  ],
)  # fmt: skip
def test_a_pair_is_two_segments(name, content, fields, tmp_path):
  """A is 3 and C is 4."""
  features = encoded(written(tmp_path, content, name), **fields)
  assert features.symbols.tolist() == [
    [CLS, 3, 4, SEP, 4, 4, 3, SEP],
    [CLS, 3, 4, 4, 4, SEP, 3, SEP],
  ]
  assert features.segments.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1]]
  assert features.lengths.tolist() == [8, 8]


def test_the_longer_sequence_is_cut_first(tmp_path, caplog):
  table = "a,b,label\nAAAAAAAA,CC,yes\nAA,CCCCCCCC,no\nAAAAA,CCCCC,no\nAAA,CC,no\n"
  features = encoded(written(tmp_path, table), max_length=8)
  texts = ["".join(".  AC"[one] for one in row) for row in features.symbols]
  assert texts == [" AAA CC ", " AA CCC ", " AA CCC ", " AAA CC "]
  assert "3 of 4 sequences" in caplog.text


def test_equal_pairs_and_not_equal_ones(tmp_path):
  """AC with A is not A with CA, though the letters in a row are the same."""
  features = encoded(written(tmp_path, "a,b,label\nAC,A,yes\nA,CA,no\n"))
  assert not np.array_equal(*features.symbols)


@pytest.mark.parametrize(
  ("content", "fields", "place"),
  [
    (TABLE + ",A,no\n", {}, "a.csv:4"),
    (TABLE + "A,,no\n", {}, "a.csv:4"),
    (TABLE, {"sequence_column": "a,c"}, "a.csv:1"),
    (TABLE, {"sequence_column": "a,b,label"}, "task.sequence_column"),
    (TABLE, {"sequence_column": "a,a"}, "task.sequence_column"),
    (TABLE, {"sequence_column": "a,label"}, "task.label_column"),
    (TABLE, {"kind": "tagging"}, "task.sequence_column"),
    (">x yes\nAC\n", {}, "a.fa"),
  ],
)
def test_mistakes(content, fields, place, tmp_path):
  path = written(tmp_path, content, "a.fa" if content.startswith(">") else "a.csv")
  with pytest.raises(UserError, match=place):
    read(path, **{"sequence_column": "a,b", **fields})


def pairs_table(path, pairs):
  rows = "".join(f"{a},{b},{'xy'[i % 2]}\n" for i, (a, b) in enumerate(pairs))
  path.write_text("first,second,label\n" + rows)
  return path


def test_predictions_are_those_of_the_exported_folder(tmp_path):
  sequences = sequences_of("ACDE", 80, 12)
  pairs = list(zip(sequences[:40], sequences[40:], strict=True))
  fields = {"task.sequence_column": "first,second", "task.max_length": 16}
  config = config_of(None, pairs_table(tmp_path / "train.csv", pairs), **fields)
  config.token_map.kind = "random_shift"
  config.model.config.update(SIZES)
  write_finished_run(tmp_path / "run", config)
  new = [("ACD", "EE"), ("ACDEACDEACDE", "CA"), ("DDDDDDDDDDD", "EEEEEEEEEEE"), ("EE", "ACD")]
  columns = "--config.task.sequence_column=first,second"
  check(tmp_path / "run", new, pairs_table(tmp_path / "new.csv", new), columns)
