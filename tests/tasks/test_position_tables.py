"""Tests tables with labels of positions, or with several labels: what is read of them, and mistakes."""

import json

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.features import featurise
from tests.tasks.own_tables import read, written

TAGGED = [("ACDE", "HHCC"), ("AC", "CH"), ("DDD", "CCC")]
FORMS = {
  "letters.csv": "sequence,label\nACDE,HHCC\nAC,CH\nDDD,CCC\n",
  "words.tsv": "sequence\tlabel\nACDE\tH H C C\nA C\tC H\nDDD\tC C C\n",
  "lists.csv": "sequence,label\n"
  + "".join('{},"{}"\n'.format(s, json.dumps([*t]).replace('"', '""')) for s, t in TAGGED),
  "lists.jsonl": "".join(json.dumps({"sequence": s, "label": [*t]}) + "\n" for s, t in TAGGED),
  "texts.jsonl": "".join(json.dumps({"sequence": [*s], "label": t}) + "\n" for s, t in TAGGED),
  "pairs.fasta": ">p\nAC\nDE\n>p\nHH\nCC\n>q\nAC\n>q\nCH\n>r\nDDD\n>r\nCCC\n",
  "named_pairs.fasta": ">p\nACDE\n>p_ss\nHHCC\n>q\nAC\n>q_ss\nCH\n>r\nDDD\n>r_ss\nCCC\n",
  "three.fasta": ">p | TM\nACDE\nHHCC\n>q | SP\nAC\nCH\n\n>r | SP\nDDD\nCCC\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_tags(name, tmp_path):
  task = read(written(tmp_path, FORMS[name], name), kind="tagging")
  assert task.answer.labels == ("C", "H")
  features = featurise(task, make_vocabulary("ACDE", 12), 20)
  assert features.lengths.tolist() == [6, 4, 5]
  assert features.targets["labels"].tolist() == [
    [-1, 1, 1, 0, 0, -1],
    [-1, 0, 1, -1, -1, -1],
    [-1, 0, 0, 0, -1, -1],
  ]


def test_folds_of_rna_with_their_energy(tmp_path):
  folds = ">x\nGGAAACC\n((...)) (-1.30)\n>y\nGAAAC\n(...) ( -0.20)\n"
  task = read(written(tmp_path, folds, "a.fa"), kind="tagging")
  assert task.answer.labels == ("(", ")", ".")
  assert [len(one.label) for one in task.read()["all"]] == [7, 5]


def test_splits_stand_in_the_header(tmp_path):
  text = "".join(f">p{i} {part}\nACDE\nHHCC\n" for i, part in enumerate(("train", "dev", "test")))
  task = read(written(tmp_path, text, "a.fa"), kind="tagging", splits="split")
  assert {part: len(own) for part, own in task.read().items()} == {
    "train": 1,
    "validation": 1,
    "test": 1,
  }


def test_a_tag_that_is_not_scored(tmp_path):
  path = written(tmp_path, "sequence,label\nACDE,HHXC\nAC,CX\n")
  task = read(path, kind="tagging", ignore_label="X")
  assert task.answer.labels == ("C", "H")
  assert [one.label.tolist() for one in task.read()["all"]] == [[1, 1, -1, 0], [0, -1]]


@pytest.mark.parametrize(
  ("name", "content", "ignored", "unused"),
  [
    ("a.csv", "sequence,label\nACDE,HHXC\nAC,CX\n", "X", False),
    ("a.csv", "sequence,label\nACDE,HHXC\nAC,CX\n", "x", True),
    ("a.csv", "sequence,label\nACDE,0.0 1.0 1.0 0.0\nAC,0 -1.0\n", "-1", False),
    ("a.jsonl", '{"sequence": "AC", "label": ["H", null]}\n{"sequence": "AC", "label": ["X", "C"]}\n', "x", True),
    ("a.jsonl", '{"sequence": "AC", "label": ["H", NaN]}\n{"sequence": "AC", "label": ["X", "C"]}\n', "X", False),
  ],
)  # fmt: skip
def test_a_tag_to_ignore_that_occurs_nowhere_is_said(
  name, content, ignored, unused, tmp_path, caplog
):
  path = written(tmp_path, content, name)
  read(path, kind="tagging", ignore_label=ignored)
  assert (f"task.ignore_label = {ignored!r}, {path}" in caplog.text) == unused


def test_a_value_that_stands_for_a_missing_one(tmp_path, caplog):
  """The remedy that is named for positions is tried."""
  content = "sequence,label\nACDE,0.5 1 -999 1\nAC,1 2\n"
  read(written(tmp_path, content), kind="position_regression")
  assert "-999 (1 of 6 positions)" in caplog.text
  caplog.clear()
  read(written(tmp_path, content.replace("-999", "nan")), kind="position_regression")
  assert "999" not in caplog.text


VALUES = [[0.5, None, -1, 2e-3], [1, 2]]
VALUE_FORMS = {
  "blanks.csv": "sequence,label\nACDE,0.5 nan -1 2e-3\nAC,1 2\n",
  "commas.csv": 'sequence,label\nACDE,"0.5, NaN, -1, 2e-3"\nAC,"1,2"\n',
  "lists.jsonl": "".join(
    json.dumps({"sequence": s, "label": v}) + "\n"
    for s, v in zip(("ACDE", "AC"), VALUES, strict=True)
  ),
  "nan.jsonl": '{"sequence": "ACDE", "label": [0.5, NaN, -1, 0.002]}\n{"sequence": "AC", "label": [1, 2]}\n',
  "pairs.fa": ">p\nACDE\n>p\n0.5 nan\n-1 2e-3\n>q\nAC\n>q\n1 2\n",
  "three.fa": ">p\nACDE\n0.5 NA -1 2e-3\n>q\nAC\n1 2\n",
}


@pytest.mark.parametrize("name", VALUE_FORMS)
def test_every_form_of_values(name, tmp_path):
  task = read(written(tmp_path, VALUE_FORMS[name], name), kind="position_regression")
  first, second = (one.label for one in task.read()["all"])
  np.testing.assert_array_equal(first, np.array([0.5, np.nan, -1, 2e-3], np.float32))
  np.testing.assert_array_equal(second, np.array([1, 2], np.float32))


SETS = [(1, 0, 1), (0, 0, 0), (0, 1, 0)]
SET_FORMS = {
  "parted.csv": "sequence,label\nA,x;z\nC,;\nD,y\n",
  "end.csv": "sequence,label\nA,x; z;\nC,;\nD,y;\n",
  "lists.jsonl": '{"sequence": "A", "label": ["z", "x"]}\n{"sequence": "C", "label": []}\n'
  '{"sequence": "D", "label": "y"}\n',
  "header.fa": ">a z;x\nA\n>b ;\nC\n>c y\nD\n",
}


@pytest.mark.parametrize("name", SET_FORMS)
def test_every_form_of_several_labels(name, tmp_path):
  task = read(written(tmp_path, SET_FORMS[name], name), kind="multilabel")
  assert task.answer.labels == ("x", "y", "z")
  assert [tuple(one.label.tolist()) for one in task.read()["all"]] == SETS


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("a.csv", "z,sequence,y,x\n1,A,0,1.0\n0,C,0,0\n0,D,1,0\n"),
    ("a.jsonl", '{"sequence": "A", "x": true, "y": 0, "z": "1"}\n{"sequence": "C", "x": 0, "y": 0, "z": 0}\n'
     '{"sequence": "D", "x": 0, "y": 1.0, "z": false}\n'),
  ],
)  # fmt: skip
def test_columns_of_0_and_1(name, content, tmp_path):
  task = read(written(tmp_path, content, name), kind="multilabel", label_column="x,y,z")
  assert task.answer.labels == ("x", "y", "z")
  assert [tuple(one.label.tolist()) for one in task.read()["all"]] == SETS


def test_columns_beside_a_group(tmp_path):
  path = written(tmp_path, "g,sequence,y,x\n7,A,0,1\n7,C,1,0\n8,D,1,0\n")
  task = read(path, kind="multilabel", label_column="x,y", group_column="g")
  first, second, third = (one.group for one in task.read()["all"])
  assert first == second != third


GOOD = "ACDE,HHCC\n"
# Each file has a mistake at a line, which the message names.
TAGS = {
  "too_short": ("a.csv", GOOD + "ACDE,HHC\n", 3),
  "too_long": ("a.csv", GOOD + "ACDE,HHCCC\n", 3),
  "too_few_words": ("a.csv", GOOD + "ACDE,H H C\n", 3),
  "no_label": ("a.csv", GOOD + "ACDE,\n", 3),
  "a_missing_one": ("a.csv", GOOD + "ACDE,nan\n", 3),
  "blanks_in_place_of_a_tag": ("a.csv", GOOD + "ACDE,HH C\n", 3),
  "list_too_long": ("a.csv", GOOD + 'ACDE,"[""H"",""H"",""C"",""C"",""C""]"\n', 3),
  "list_not_closed": ("a.csv", GOOD + 'ACDE,"[""H"",""H"",""C"",""C"""\n', 3),
  "list_of_lists": ("a.jsonl", '{"sequence": "AC", "label": "HC"}\n{"sequence": "AC", "label": [["H"], "C"]}\n', 2),
  "an_object": ("a.jsonl", '{"sequence": "AC", "label": "HC"}\n{"sequence": "AC", "label": {"H": 1}}\n', 2),
  "null": ("a.jsonl", '{"sequence": "AC", "label": "HC"}\n{"sequence": "AC", "label": null}\n', 2),
  "brackets_not_closed": ("a.csv", "GGCC,(())\nGGCC,((.)\n", 3),
  "brackets_not_opened": ("a.fa", ">a\nGGCC\n(())\n>b\nGGCC\n())(\n", 4),
  "three_lines_with_two": ("a.fa", ">a\nACDE\nHHCC\n>b\nACDE\n>c\nAC\nHC\n", 4),
  "three_lines_with_four": ("a.fa", ">a\nACDE\nHHCC\n>b\nACDE\nHHCC\nHHCC\n>c\nAC\nHC\n", 4),
  "three_lines_of_other_lengths": ("a.fa", ">a\nACDE\nHHCC\n>b\nACDE\nHHC\n>c\nAC\nHC\n", 4),
  "a_pair_without_its_second": ("a.fa", ">a\nACDE\n>a\nHHCC\n>b\nACDE\n", 5),
  "a_pair_of_other_names": ("a.fa", ">a\nACDE\n>a\nHHCC\n>b\nAC\n>b\nHC\n>c\nAC\n>d\nHC\n", 9),
  "a_pair_of_other_lengths": ("a.fa", ">a\nACDE\n>a\nHHCC\n>b\nAC\n>b\nHCC\n", 5),
  "no_sequence": ("a.csv", GOOD + ",HHCC\n", 3),
  "a_control_character": ("a.csv", GOOD + "ACDE,HH\x01C\n", 3),
}  # fmt: skip
VALUES_WRONG = {
  "too_few": ("a.csv", "AC,1 2\nACD,1 2\n", 3),
  "too_many": ("a.jsonl", '{"sequence": "AC", "label": [1, 2]}\n{"sequence": "A", "label": [1, 2]}\n', 2),
  "infinite": ("a.csv", "AC,1 2\nAC,1 inf\n", 3),
  "a_word": ("a.csv", "AC,1 2\nAC,1 much\n", 3),
  "decimal_commas": ("a.csv", 'AC,1 2\nAC,"0,5 1,5"\n', 3),
  "true": ("a.jsonl", '{"sequence": "AC", "label": [1, 2]}\n{"sequence": "AC", "label": [1, true]}\n', 2),
  "list_not_closed": ("a.csv", 'AC,1 2\nAC,"[1, 2"\n', 3),
}  # fmt: skip
SETS_WRONG = {
  "empty": ("a.csv", "A,x;y\nC,\n", 3),
  "an_empty_name": ("a.csv", "A,x;y\nC,x;;y\n", 3),
  "a_missing_name": ("a.csv", "A,x;y\nC,x;NA\n", 3),
  "a_list_of_lists": ("a.jsonl", '{"sequence": "A", "label": ["x", "y"]}\n{"sequence": "A", "label": [["x"]]}\n', 2),
}  # fmt: skip
COLUMNS_WRONG = {
  "two": ("a.csv", "sequence,x,y\nA,0,1\nC,2,1\n", 3),
  "empty": ("a.csv", "sequence,x,y\nA,0,1\nC,,1\n", 3),
  "null": ("a.jsonl", '{"sequence": "A", "x": 1, "y": 0}\n{"sequence": "A", "x": null, "y": 0}\n', 2),
  "missing": ("a.csv", "sequence,x\nA,0\nC,1\n", 1),
}  # fmt: skip
HEADED = "sequence,label\n"


@pytest.mark.parametrize(
  ("kind", "case"),
  [
    *(("tagging", case) for case in TAGS.values()),
    *(("position_regression", case) for case in VALUES_WRONG.values()),
    *(("multilabel", case) for case in SETS_WRONG.values()),
    *(("columns", case) for case in COLUMNS_WRONG.values()),
  ],
  ids=[*TAGS, *VALUES_WRONG, *SETS_WRONG, *COLUMNS_WRONG],
)
def test_a_mistake_is_one_line_with_its_place(kind, case, tmp_path):
  name, content, line = case
  fields = {"kind": kind}
  if kind == "columns":
    fields = {"kind": "multilabel", "label_column": "x,y"}
  elif name.endswith(".csv"):
    content = HEADED + content
  path = written(tmp_path, content, name)
  with pytest.raises(UserError) as error:
    read(path, **fields)
  assert f"{path}:{line}" in str(error.value)
  assert "\n" not in str(error.value)


@pytest.mark.parametrize("case", ["too_short", "three_lines_with_two", "brackets_not_closed"])
def test_such_rows_can_be_left_out(case, tmp_path, caplog):
  name, content, _ = TAGS[case]
  path = written(tmp_path, (HEADED if name.endswith(".csv") else "") + content, name)
  task = read(path, kind="tagging", skip_invalid=True)
  assert "1 samples" in caplog.text
  assert len(task.read()["all"]) in (1, 2)


def test_a_tag_that_training_lacks(tmp_path):
  content = "sequence,label,part\nACDE,HHCC,train\nAC,HC,dev\nAC,HG,test\n"
  path = written(tmp_path, content)
  with pytest.raises(UserError, match=f"'G'.*{path}:4"):
    read(path, kind="tagging", splits="part")


@pytest.mark.parametrize(
  ("kind", "fields", "key"),
  [
    ("classification", {"ignore_label": "X"}, "task.ignore_label"),
    ("position_regression", {"ignore_label": "X"}, "task.ignore_label"),
    ("multilabel", {"label_column": "x,,y"}, "task.label_column"),
    ("multilabel", {"label_column": "x,x"}, "task.label_column"),
    ("multilabel", {"label_column": "x,sequence"}, "task.label_column"),
    ("tags", {}, "task.kind"),
  ],
)
def test_fields_that_do_not_go_together(kind, fields, key, tmp_path):
  path = written(tmp_path, "sequence,label\nA,x\n")
  with pytest.raises(UserError, match=key):
    read(path, kind=kind, **fields)


def test_a_column_without_1(tmp_path):
  path = written(tmp_path, "sequence,x,y,z\nA,0,1,1\nC,0,1,0\n")
  with pytest.raises(UserError, match="'x'"):
    read(path, kind="multilabel", label_column="x,y,z")


def test_a_label_list_is_still_no_class(tmp_path):
  path = written(
    tmp_path, '{"sequence": "A", "label": ["x"]}\n{"sequence": "A", "label": "y"}\n', "a.jsonl"
  )
  with pytest.raises(UserError, match=f"{path}:1"):
    read(path)
