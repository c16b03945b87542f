"""Tests what a plan says of the parts that it draws for tables of the user's own."""

import random

import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.programs import finetuning_plan
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks.leakage import Overlap
from discipline_jax.tasks.strands import reverse_complement
from tests.tasks.own_tables import written


def plan(path, *, max_examples=-1, **task):
  config = defaults.finetune()
  config.eval.max_examples = max_examples
  config.task.update(name="custom", path=str(path), **task)
  config.model.init = "scratch"
  config.model.config.update(vocab_size=64, max_position_embeddings=64)
  config.train.update(steps=1, batch_size=2)
  config.replicas = 2
  return make_plan(config)


def sequences(number, length=20):
  random.seed(number)
  return ["".join(random.choices("ACGT", k=length)) for _ in range(number)]


@pytest.fixture
def leaking(tmp_path):
  """Makes ten test rows of which eight are in training, and two of these with the other label only."""
  rows = [f"{one},{i % 2},train\n" for i, one in enumerate(sequences(40))]
  test = [
    f"{one},{i % 2 if i > 1 else 1 - i % 2},test\n" for i, one in enumerate(sequences(40)[:8])
  ]
  fresh = [f"{one},{i % 2},test\n" for i, one in enumerate(sequences(2, 21))]
  validation = [f"{one},0,val\n" for one in sequences(3)]
  return written(tmp_path, "sequence,label,part\n" + "".join([*rows, *test, *fresh, *validation]))


def test_rows_of_test_that_training_has_are_counted(leaking, caplog):
  drawn = plan(leaking, splits="part")
  assert (
    "8 of 10 test samples (2 of them with another label) are in the training part, too"
    in caplog.text
  )
  assert (
    "validation" not in caplog.text.partition("are in the training part")[0].rpartition("\n")[2]
  )
  assert [one["test"].samples for one in drawn.parts.overlaps] == [8, 8]


def test_the_remedy_for_equal_rows_of_random_parts(tmp_path, caplog):
  rows = [f"{one},{i % 2}\n" for i, one in enumerate(sequences(30))] * 4
  table = written(tmp_path, "sequence,label\n" + "".join(rows))
  plan(table)
  assert "set --config.task.group_identity=1" in caplog.text
  caplog.clear()
  drawn = plan(table, group_identity=1.0)
  assert "in the training part" not in caplog.text
  assert drawn.parts.grouping is not None
  assert drawn.parts.grouping.startswith("30 of sequences that share 100% of their")


def test_groups_of_the_table_stay_together(tmp_path):
  rows = [f"{one},{i % 2},family {i // 5}\n" for i, one in enumerate(sequences(200))]
  drawn = plan(written(tmp_path, "sequence,label,kin\n" + "".join(rows)), group_column="kin")
  assert drawn.parts.grouping == "40 of the table, of up to 5 samples, each in one part"
  for split in drawn.splits:
    families = [{int(i) // 5 for i in part} for part in split.values()]
    assert sum(map(len, families)) == 40


def test_groups_of_the_table_and_sequences_that_are_alike_stay_together(tmp_path):
  """Row i has sequence i // 2 and group (i + 1) // 2, so that rows would be one chain but for a new one each ten."""
  one = sequences(100)
  rows = [
    f"{one[i // 2]},{i % 2},{1000 + i if i % 10 == 0 else (i + 1) // 2}\n" for i in range(200)
  ]
  table = written(tmp_path, "sequence,label,kin\n" + "".join(rows))
  drawn = plan(table, group_column="kin", group_identity=0.9)
  assert drawn.parts.grouping is not None
  assert drawn.parts.grouping.startswith("20 of ")
  assert "up to 10 samples" in drawn.parts.grouping
  for split in drawn.splits:
    assert sum(len({int(i) // 10 for i in part}) for part in split.values()) == 20


def test_pairs_are_grouped_by_a_column_alone(tmp_path, caplog):
  """Pair i is in the table a second time, in the other order."""
  first, second = sequences(40), sequences(40, 21)
  rows = [
    f"{a},{b},{i % 2},{i}\n{b},{a},{i % 2},{i}\n"
    for i, (a, b) in enumerate(zip(first, second, strict=True))
  ]
  table = written(tmp_path, "a,b,label,kin\n" + "".join(rows))
  fields = {"sequence_column": "a,b"}
  with pytest.raises(UserError, match=r"task\.group_column"):
    plan(table, group_identity=0.5, **fields)
  drawn = plan(table, **fields)
  counts = [sum(int(i) ^ 1 in {*split["train"]} for i in split["test"]) for split in drawn.splits]
  assert [one["test"].samples for one in drawn.parts.overlaps] == counts
  assert min(counts) > 0
  told = caplog.text.partition("in the training part, too")[2]
  assert "task.group_column" in told
  assert "group_identity" not in told
  caplog.clear()
  drawn = plan(table, group_column="kin", **fields)
  assert "in the training part" not in caplog.text
  assert [one["test"].samples for one in drawn.parts.overlaps] == [0, 0]


def test_names_in_headers_can_be_groups(tmp_path):
  rows = "".join(f">p{i // 4} {i % 2}\n{one}\n" for i, one in enumerate(sequences(80)))
  drawn = plan(written(tmp_path, rows, "a.fasta"), group_column="name")
  assert drawn.parts.grouping is not None
  assert drawn.parts.grouping.startswith("20 of the table")


def test_a_class_of_one_row_is_kept_in_training(tmp_path, caplog):
  rows = [
    f"{one},{'b' if i == 7 else 'a' if i % 2 else 'c'}\n" for i, one in enumerate(sequences(100))
  ]
  table = written(tmp_path, "sequence,label\n" + "".join(rows))
  for split in plan(table).splits:
    assert 7 in split["train"]
  assert "cannot be predicted" not in caplog.text
  plan(table, train_fraction=0.05)
  assert "cannot be predicted: b (seed 0); b (seed 1); give more samples" in caplog.text


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"group_column": "label", "splits": "part"}, "task.splits = 'part' gives the parts"),
    ({"group_column": "kin", "splits": None}, "no column 'kin'"),
    ({"group_identity": 0.5, "splits": "part"}, "the parts of task custom are given"),
    ({"group_identity": 1.5, "splits": None}, "not in (0, 1]"),
    ({"group_column": "label"}, "2 group"),
  ],
)
def test_mistakes(fields, message, leaking):
  with pytest.raises(UserError) as error:
    plan(leaking, **fields)
  assert message in str(error.value)


def test_equal_numbers_are_one_group(tmp_path):
  rows = [
    f"{one},{i % 2},{i // 2 if i % 2 else f'{i // 2}.0'}\n" for i, one in enumerate(sequences(60))
  ]
  drawn = plan(written(tmp_path, "sequence,label,kin\n" + "".join(rows)), group_column="kin")
  assert drawn.parts.grouping is not None
  assert drawn.parts.grouping.startswith("30 of the table")


@pytest.mark.parametrize("missing", ["", "NA", "null"])
def test_each_row_needs_a_group(missing, tmp_path):
  rows = [f"{one},{i % 2},{missing if i == 4 else 'f'}\n" for i, one in enumerate(sequences(30))]
  table = written(tmp_path, "sequence,label,kin\n" + "".join(rows))
  with pytest.raises(UserError, match=r"no group in column 'kin', .*a\.csv:6"):
    plan(table, group_column="kin")


def test_the_other_strand_of_a_training_row_is_counted(tmp_path, caplog):
  rows = [f"{one},{i % 2},train\n" for i, one in enumerate(sequences(40))]
  rows += [f"{one},0,val\n" for one in sequences(3, 21)]
  rows += [f"{reverse_complement(sequences(40)[2])},1,test\n", f"{sequences(1, 22)[0]},0,test\n"]
  table = written(tmp_path, "sequence,label,part\n" + "".join(rows))
  for choice, count in (("off", 0), ("augment", 1), ("average", 1)):
    caplog.clear()
    drawn = plan(table, splits="part", reverse_complement=choice)
    assert [one["test"] for one in drawn.parts.overlaps] == [Overlap(count, count)] * 2
    assert ("1 of 2 test samples" in caplog.text) == bool(count)


def test_the_other_strand_of_a_training_row_is_counted_if_it_is_read_in_windows(tmp_path):
  """Windows of 21 symbols begin at 0, 5 and 11, those of the other strand at 0, 6 and 11, in the other order."""
  rows = [f"{one},{i % 2},train\n" for i, one in enumerate(sequences(40, 21))]
  rows += [f"{one},0,val\n" for one in sequences(3, 22)]
  rows += [
    f"{reverse_complement(sequences(40, 21)[2])},1,test\n",
    f"{sequences(1, 21)[0]},0,test\n",
  ]
  table = written(tmp_path, "sequence,label,part\n" + "".join(rows))
  fields = {"splits": "part", "long": "windows", "max_length": 12, "stride": 6}
  for choice, count in (("off", 0), ("average", 1)):
    drawn = plan(table, reverse_complement=choice, **fields)
    assert [one["test"] for one in drawn.parts.overlaps] == [Overlap(count, count)] * 2


def test_the_samples_that_choose_the_weights_have_a_scored_position(tmp_path):
  rows = [f"{one},{'hs' * 10},train\n" for one in sequences(9)]
  rows += [f"{one},{'x' * 20},val\n" for one in sequences(2)]
  rows += [f"{one},{'h' * 20},val\n" for one in sequences(3)]
  table = written(tmp_path, "sequence,label,part\n" + "".join(rows))
  fields = {"splits": "part", "kind": "tagging", "ignore_label": "x"}
  assert len(plan(table, max_examples=3, **fields).splits[0]["validation"]) == 5
  with pytest.raises(UserError, match=r"first 2 samples of validation .*eval\.max_examples"):
    plan(table, max_examples=2, **fields)


def test_both_strands_of_a_sequence_are_one_group(tmp_path):
  both = [*sequences(30), *map(str, map(reverse_complement, sequences(30)))]
  rows = [f"{one},{i % 2}\n" for i, one in enumerate(both)]
  table = written(tmp_path, "sequence,label\n" + "".join(rows))
  drawn = plan(table, group_identity=1.0, reverse_complement="augment")
  assert drawn.parts.grouping is not None
  assert drawn.parts.grouping.startswith("30 of sequences")
  for split in drawn.splits:
    strands = [{int(i) % 30 for i in part} for part in split.values()]
    assert sum(map(len, strands)) == 30


def test_the_name_of_kept_features_is_that_from_before_strands(tmp_path, monkeypatch):
  """So that features are not encoded anew; the alphabet of a table is larger with strands."""
  noted = []

  def cached(_, __, settings, make):
    noted.append(settings[0])
    return make()

  monkeypatch.setattr(finetuning_plan, "cached", cached)
  rows = [f"{one},{i % 2}\n" for i, one in enumerate(sequences(30))]
  table = written(tmp_path, "sequence,label\n" + "".join(rows))
  for choice in ("off", "augment"):
    plan(table, reverse_complement=choice)
  off, augment = noted
  assert augment == off | {"reverse_complement": "augment"}
  assert "reverse_complement" not in off
  assert list(off) == [one for one in defaults.finetune().task.to_dict() if one in off]
