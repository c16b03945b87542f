"""Tests which labels name a class, and which of them name the same one."""

import json

import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.class_names import class_key, class_name, class_names, missing, refused
from tests.tasks.own_tables import read, written

# All that pandas.read_csv takes for a missing value, from its documentation.
PANDAS = [
  *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>"),
  *("N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
]


@pytest.mark.parametrize("word", [*PANDAS, "?", "-", "--", ".", "na", "Null", "#DIV/0!", " NA "])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_words_for_a_missing_label(word, kind, tmp_path, caplog):
  rows = f"A,1\nC,2\nG,{word}\nT,1\n"
  path = written(tmp_path, f"sequence,label\n{rows}")
  with pytest.raises(UserError, match=f"{path}:4; .*task.skip_invalid") as raised:
    read(path, kind=kind)
  assert repr(word.strip()) in str(raised.value)
  task = read(path, kind=kind, skip_invalid=True)
  assert [one.label for one in task.read()["all"]] == (
    [0, 1, 0] if kind == "classification" else [1, 2, 1]
  )
  assert f"1 samples of {path} are left out" in caplog.text


def test_json_null_is_a_missing_label(tmp_path):
  lines = [json.dumps({"sequence": "A", "label": label}) for label in ("x", None, "y")]
  path = written(tmp_path, "\n".join(lines), "a.jsonl")
  with pytest.raises(UserError, match=f"{path}:2;"):
    read(path)
  assert len(read(path, skip_invalid=True).read()["all"]) == 2


@pytest.mark.parametrize("renamed", ["no binding", "none_", "none"])
def test_a_class_of_such_a_name_can_be_renamed(renamed, tmp_path):
  path = written(tmp_path, f"sequence,label\nA,weak\nC,{renamed}\n")
  assert read(path).answer.labels == tuple(sorted(["weak", renamed]))


def test_a_minus_is_a_class_beside_a_plus(tmp_path):
  assert missing(["-", "+", "NA"]).keys() == {"NA"}
  assert missing(["-", "x"]).keys() == {"-"}
  for name, sign in {"train": "+", "validation": "-", "test": "-"}.items():
    written(tmp_path, f"sequence,label\nA,{sign}\nC,{sign}\nA,-\n", f"m_{name}.csv")
  task = read(tmp_path / "m_{split}.csv")
  assert task.answer.labels == ("+", "-"), "a test file may have only one of them"


def test_dates_among_other_labels():
  assert refused(["SEPT2", "2-Mar", "Mar-02", "x-1"]).keys() == {"2-Mar", "Mar-02"}
  assert refused(["2024-03-01", "2024-03-02", ""]) == {}
  assert refused(["Dec-1", "1/2/2024", "NA"]).keys() == {"NA"}
  assert missing(["2-Mar", "x"]) == {}, "values have an error of their own"


@pytest.mark.parametrize(
  ("label", "name"),
  [
    ("0.0", "0"), ("1.", "1"), ("-0.0", "0"), ("-12.00", "-12"), ("+3.0", "3"), ("01", "01"), ("2.50", "2.50"),
    ("1e3", "1e3"), ("1.0.0", "1.0.0"), ("v1.0", "v1.0"), ("", ""), ("1" * 30 + ".0", "1" * 30),
  ],
)  # fmt: skip
def test_a_name_is_that_of_json(label, name):
  assert class_name(label) == name


def test_equal_numbers_have_one_key():
  for same in (["0", "00", "0.0", "-0", "0e5"], ["1", "01", "1e0", "+1", "1.0"], ["1.1", "1.10", "11e-1"]):  # fmt: skip
    assert len(set(map(class_key, same))) == 1
  assert class_key("0.1") == class_key("0.10000000000000001"), "one number to programs"
  assert class_key("9" * 30) != class_key("9" * 29 + "8")
  assert class_key("1e400") != class_key("1e401")
  assert len(set(map(class_key, ["1", "10", "-1", "1x", "x1", "1.0.0", "", "0.1"]))) == 8


@pytest.mark.parametrize(
  ("labels", "names", "said"),
  [
    (["0", "1"], ["0", "1"], []),
    (["01", "02"], ["01", "02"], []),
    (["01", "1", "2"], ["1", "2"], ["'01', '1'"]),
    (["1e3", "1000", "2"], ["1000", "2"], ["'1000', '1e3'"]),
    (["1.1", "1.10", "2"], ["1.1", "2"], ["'1.1', '1.10'"]),
    (["yes", "Yes", "YES", "no"], ["YES", "Yes", "no", "yes"], ["'YES', 'Yes', 'yes'"]),
    (["Cell wall", "Cell  wall", "cell-wall", "x"], ["Cell  wall", "Cell wall", "cell-wall", "x"],
     ["'Cell  wall', 'Cell wall', 'cell-wall'"]),
    (["a", "a\u200b"], ["a", "a\u200b"], [r"'a', 'a\u200b'"]),
    (["\xe9", "e\u0301"], ["e\u0301", "\xe9"], [r"'e\u0301', '\xe9'"]),
    (["ﬁ", "fi"], ["fi", "ﬁ"], ["'fi', 'ﬁ'"]),
    (["1", "-1", "a-", "a"], ["-1", "1", "a", "a-"], []),
    (["1-Jan", "2-Jan"], ["1-Jan", "2-Jan"], ["'1-Jan', '2-Jan'"]),
    (["none", "mild"], ["mild", "none"], ["'none'"]),
    (["'0", "0", "1"], ["'0", "0", "1"], ["\"'0\", '0'"]),
    (["\u22121", "-1", "1"], ["-1", "1", "\u22121"], ["'-1', '\u22121'"]),
    (["Fam3", "fam 3", "Fam4"], ["Fam3", "Fam4", "fam 3"], ["'Fam3', 'fam 3'"]),
    (["b\u043eund", "bound"], ["bound", "b\u043eund"], [r"'b\u043eund' mix"]),
    (["\u043e\u0433", "bound"], ["bound", "\u043e\u0433"], []),
    (["True", "1", "0"], ["0", "1", "True"], ["'0', '1', 'True'"]),
  ],
)  # fmt: skip
def test_names_and_what_is_said_of_them(labels, names, said, caplog):
  assert sorted(class_names(labels).values()) == names
  assert len(caplog.messages) == len(said)
  for message, fact in zip(caplog.messages, said, strict=True):
    assert fact in message


def test_numbers_are_one_class_in_all_files(tmp_path):
  """`0` in one file, `0.0` in another, and JSON's numbers."""
  for name, labels in {"train": "01", "validation": ("0.0", "1.0"), "test": ("00", "1e0")}.items():
    rows = "".join(f"A,{label}\n" for label in labels)
    written(tmp_path, f"sequence,label\n{rows}", f"m_{name}.csv")
  task = read(tmp_path / "m_{split}.csv")
  assert task.answer.labels == ("0", "1")
  assert {part: [one.label for one in rows] for part, rows in task.read().items()} == {
    part: [0, 1] for part in ("train", "validation", "test")
  }
