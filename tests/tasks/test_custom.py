"""Tests what is read from users' own tables: samples, labels, parts, and mistakes."""

import gzip
import json
import lzma
import re

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.custom import custom
from discipline_jax.tasks.features import featurise
from tests.tasks.own_tables import DEFAULT, read, written
from tests.whole_runs import CONFIG


def samples(task):
  """Symbols as text and label of each sample, by part; `?` for a symbol that the alphabet lacks."""

  def symbols(sequence):
    names = (*task.alphabet.symbols, "?")
    return list(sequence) if isinstance(sequence, str) else [names[i] for i in sequence]

  return {
    part: [(symbols(one.sequence), one.label) for one in examples]
    for part, examples in task.read().items()
  }


TEXTS = {
  ".csv": 'label,sequence\nyes,ACG\nno,TTGA\nyes,"ACGT\nA"\n',
  ".tsv": "sequence\tlabel\nACG\tyes\nTTGA\tno\nACGTA\tyes\n",
  ".jsonl": '{"sequence": "ACG", "label": "yes"}\n{"sequence": ["T", "T", "G", "A"], "label": "no"}\n'
  '{"sequence": "ACGTA", "label": "yes", "note": null}\n',
  ".fasta": ">a yes\nACG\n>b no\nTT\nGA\n>c yes\n\nACGT\nA\n",
}


class TestExamples:
  @pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
  @pytest.mark.parametrize("suffix", TEXTS)
  def test_of_every_format_are_the_same(self, suffix, pack, tmp_path):
    packed = {bytes: "", gzip.compress: ".gz", lzma.compress: ".xz"}[pack]
    task = read(written(tmp_path, pack(TEXTS[suffix].encode()), f"a{suffix}{packed}"))
    assert task.alphabet.symbols == tuple("ACGT")
    assert (task.answer.labels, task.answer.metric, task.max_length) == (
      ("no", "yes"),
      "accuracy",
      None,
    )
    features = featurise(task, make_vocabulary("ACGT", 9), 20)
    np.testing.assert_array_equal(
      features.symbols,
      [[1, 3, 4, 5, 2, 0, 0], [1, 6, 6, 5, 3, 2, 0], [1, 3, 4, 5, 6, 3, 2]],
    )
    np.testing.assert_array_equal(features.targets["labels"], [1, 0, 1])
    # [PAD] [CLS] [SEP], A C G T after the five special tokens, and [UNK]
    np.testing.assert_array_equal(features.symbol_ids, [0, 2, 3, 5, 6, 7, 8, 1])
    assert features.parts == {"all": 3}

  @pytest.mark.parametrize(
    ("name", "content"),
    [
      ("a.csv", 'sequence,label\n"the cat",1\n" cat\tthe\nmat ",0\n'),
      ("a.tsv", "sequence\tlabel\nthe cat\t1\ncat  the mat\t0\n"),
      ("a.jsonl", '{"sequence": "the cat", "label": 1}\n{"sequence": ["cat","the","mat"], "label": 0}'),
      ("a.fa", ">a 1\nthe cat\n>b 0\ncat the\nmat\n"),
    ],
  )  # fmt: skip
  def test_words(self, name, content, tmp_path):
    task = read(written(tmp_path, content, name), symbols="words")
    assert task.alphabet.symbols == ("cat", "mat", "the")
    assert samples(task) == {"all": [(["the", "cat"], 1), (["cat", "the", "mat"], 0)]}

  @pytest.mark.parametrize(
    ("name", "content"),
    [
      ("a.csv", 'sequence,label\n10 -2 007,a\n"9,10",b\n'),
      ("a.jsonl", '{"sequence": [10, -2, 7], "label": "a"}\n{"sequence": "9, 10", "label": "b"}'),
      ("a.fa", ">a a\n10 -2\n7\n>b b\n9 10\n"),
    ],
  )
  def test_integers_are_sorted_as_numbers(self, name, content, tmp_path):
    task = read(written(tmp_path, content, name), symbols="integers")
    assert task.alphabet.symbols == ("-2", "7", "9", "10")
    assert samples(task) == {"all": [(["10", "-2", "7"], 0), (["9", "10"], 1)]}

  def test_a_json_list_of_words_with_blanks(self, tmp_path):
    lines = '{"sequence": ["C maj", 7], "label": 0}\n{"sequence": [7], "label": 1}'
    path = written(tmp_path, lines, "a.jsonl")
    assert read(path).alphabet.symbols == ("7", "C maj")
    ids = featurise(read(path), make_vocabulary(["7", "C maj"], 9), 9).symbol_ids
    np.testing.assert_array_equal(ids, [0, 2, 3, 5, 6, 1])

  def test_letters_of_any_script(self, tmp_path):
    path = written(tmp_path, "sequence,label\nδβ😀,é\nAa,ß\n")
    task = read(path)
    assert task.alphabet.symbols == ("A", "a", "β", "δ", "😀")
    assert task.answer.labels == ("ß", "é")
    assert samples(task) == {"all": [(["δ", "β", "😀"], 1), (["A", "a"], 0)]}

  @pytest.mark.parametrize("length", [50_000, 200_000])
  def test_long_sequences(self, length, tmp_path):
    path = written(tmp_path, f"sequence,label\n{'ACGT' * (length // 4)},1\nAC,0\n")
    features = featurise(read(path), make_vocabulary("ACGT", 9), length + 2)
    np.testing.assert_array_equal(features.lengths, [length + 2, 4])
    np.testing.assert_array_equal(features.symbols[0, 1:-1], [3, 4, 5, 6] * (length // 4))


class TestLabels:
  @pytest.mark.parametrize(
    ("labels", "classes"),
    [
      (["b", "a", "B", "b"], ("B", "a", "b")),
      (["10", "9", "-1", "10"], ("-1", "9", "10")),
      (["01", "02", "10"], ("01", "02", "10")),
      (["1.5", "10.5", "9"], ("1.5", "10.5", "9")),
      ([" x ", "x", "y"], ("x", "y")),
      (["é", "日本", "é"], ("é", "日本")),
    ],
  )
  def test_classes_are_in_the_order_of_numbers_or_of_text(self, labels, classes, tmp_path):
    content = "".join(f"A,{label}\n" for label in labels)
    task = read(written(tmp_path, "sequence,label\n" + content))
    assert task.answer.labels == classes
    assert [classes[int(one.label)] for one in task.read()["all"]] == [
      label.strip() for label in labels
    ]

  def test_booleans_of_json(self, tmp_path):
    lines = [json.dumps({"sequence": "A", "label": label}) for label in (True, False, True)]
    task = read(written(tmp_path, "\n".join(lines), "a.jsonl"))
    assert task.answer.labels == ("false", "true")
    assert [one.label for one in task.read()["all"]] == [1, 0, 1]

  def test_numbers_of_json_are_one_class_however_they_are_written(self, tmp_path):
    labels = ("1", '"1"', "1.0", "2.50", "2.5")
    lines = [f'{{"sequence": "A", "label": {label}}}' for label in labels]
    task = read(written(tmp_path, "\n".join(lines), "a.jsonl"))
    assert task.answer.labels == ("1", "2.5")
    assert [one.label for one in task.read()["all"]] == [0, 0, 0, 1, 1]

  @pytest.mark.parametrize(("repeats", "said"), [(1, True), (2, False)])
  def test_classes_that_look_like_values_are_said(self, repeats, said, tmp_path, caplog):
    read(written(tmp_path, "sequence,label\n" + "A,0.5\nA,1.5\nA,2.5\n" * repeats))
    message = "3 classes for 3 samples; if the labels are values, set task.kind=regression"
    assert (message in caplog.text) == said

  def test_values(self, tmp_path):
    task = read(written(tmp_path, "sequence,label\nA,1e-3\nC,-2\nG, 7 \n"), kind="regression")
    assert (task.answer.labels, task.answer.metric) == ((), "spearman")
    assert [one.label for one in task.read()["all"]] == [0.001, -2, 7]

  def test_the_metric_that_is_asked_for(self, tmp_path):
    path = written(tmp_path, "sequence,label\nA,0\nC,1\n")
    assert read(path, metric="mcc").answer.metric == "mcc"
    assert read(path, metric="f1").answer.metric == "f1"
    assert read(path, metric="pearson", kind="regression").answer.metric == "pearson"


class TestGivenParts:
  def test_by_a_column_with_its_aliases(self, tmp_path):
    rows = (
      "GAA,1,test\nA,0,train\nAC,1,valid\nTA,1,dev\nTAA,0,validation\nAA,1,Train \nA,0,VAL\n"
      "A,0,Development\nA,1,TRAINING\nAA,0,Testing\n"
    )
    task = read(written(tmp_path, f"sequence,label,part\n{rows}"), splits="part")
    assert list(task.read()) == ["train", "validation", "test"]
    assert samples(task) == {
      "train": [(["A"], 0), (["A", "A"], 1), (["A"], 1)],
      "validation": [
        (["A", "C"], 1),
        (["T", "A"], 1),
        (["T", "A", "A"], 0),
        (["A"], 0),
        (["A"], 0),
      ],
      "test": [(["G", "A", "A"], 1), (["A", "A"], 0)],
    }
    assert task.alphabet.symbols == ("A",), "of training alone"

  def test_without_a_test_part(self, tmp_path, caplog):
    path = written(tmp_path, ">a 0 train\nA\n>b 1 train\nC\n>c 1 dev\nC\n", "a.fa")
    assert list(read(path, splits="any").read()) == ["train", "validation"]
    assert f"no row of the test part, {path}: the validation part is the test" in caplog.text
    for name in ("train", "validation"):
      written(tmp_path, "sequence,label\nA,0\nC,1\n", f"my_{name}.csv")
    assert list(read(tmp_path / "my_{split}.csv").read()) == ["train", "validation"]
    missing = tmp_path / "my_test.csv"
    assert f"no file {missing}: the validation part is the test" in caplog.text

  def test_by_files(self, tmp_path):
    for name, rows in {"train": "A,0\nC,1\n", "validation": "GA,1\n", "test": "A,1\n"}.items():
      written(tmp_path, f"sequence,label\n{rows}", f"my_{name}.csv")
    with pytest.raises(UserError, match="task.splits = 'part', but task.path = .* unset one of"):
      read(tmp_path / "my_{split}.csv", splits="part")
    task = read(tmp_path / "my_{split}.csv")
    assert samples(task) == {
      "train": [(["A"], 0), (["C"], 1)],
      "validation": [(["G", "A"], 1)],
      "test": [(["A"], 1)],
    }
    assert task.alphabet.symbols == ("A", "C")

  def test_a_missing_one_of_the_files(self, tmp_path):
    written(tmp_path, "sequence,label\nA,0\nC,1\n", "my_train.csv")
    with pytest.raises(
      UserError, match=f"No such file or directory, {tmp_path}/my_validation.csv;"
    ):
      read(tmp_path / "my_{split}.csv")

  @pytest.mark.parametrize("alias", ["val", "valid", "Dev", "VALIDATION"])
  def test_files_with_other_names_of_parts(self, alias, tmp_path):
    for name in ("Training", alias, "test"):
      written(tmp_path, "sequence,label\nA,0\nC,1\n", f"my_{name}.csv")
    assert list(read(tmp_path / "my_{split}.csv").read()) == ["train", "validation", "test"]

  def test_two_files_for_one_part(self, tmp_path):
    for name in ("train", "val", "dev"):
      written(tmp_path, "sequence,label\nA,0\nC,1\n", f"my_{name}.csv")
    with pytest.raises(UserError, match="validation part, .*my_val.csv.*my_dev.csv"):
      read(tmp_path / "my_{split}.csv")

  @pytest.mark.parametrize("part", ["dev", "test"])
  def test_a_class_that_training_lacks(self, part, tmp_path, caplog):
    rows = f"A,0,train\nC,1,train\nC,1,dev\nA,7,{part}\nA,0,{part}\n"
    path = written(tmp_path, f"sequence,label,part\n{rows}")
    with pytest.raises(UserError, match=f"'7'.*{path}:5"):
      read(path, splits="part")
    task = read(path, splits="part", skip_invalid=True)
    assert task.answer.labels == ("0", "1")
    assert sum(map(len, task.read().values())) == 4
    assert f"{path}:5" in caplog.text

  def test_a_value_that_training_lacks_is_none(self, tmp_path):
    path = written(tmp_path, "sequence,label,part\nA,0,train\nC,1,train\nC,7,dev\n")
    assert len(read(path, splits="part", kind="regression").read()["validation"]) == 1


def assert_holds(error: UserError, facts: tuple[str, ...], path) -> None:
  """Asserts that the message has all `facts`: the place (`{}` is the path), the wrong value and the field."""
  for fact in facts:
    assert fact.replace("{}", str(path)) in str(error)


class TestMistakes:
  @pytest.mark.parametrize(
    ("content", "changes", "facts"),
    [
      ("A,1\n,0\n", {}, ('{}:3',)),
      ("A,1\n  ,0\n", {"symbols": "words"}, ('{}:3',)),
      ('1,1\n"",0\n', {"symbols": "integers"}, ('{}:3',)),
      ("A,1\nC,\n", {}, ('{}:3',)),
      ("A,1\nC, \n", {"kind": "regression"}, ('{}:3',)),
      ("A,1\nC,NaN\n", {}, ("'NaN'", '{}:3')),
      ("A,1\nC,a\0b\n", {}, ("'\\x00'", '{}:3')),
      ('A,1\nC,"a\nb"\n', {}, ("'\\n'", '{}:3')),
      ("A,1\nC,0\nG,2\n", {"metric": "f1"}, ('task.metric', "'f1'", '{}', 'task.metric=macro_f1')),
      ("A,1\nC,nan\n", {"kind": "regression"}, ("'nan'", '{}:3')),
      ("A,-inf\nC,1\n", {"kind": "regression"}, ("'-inf'", '{}:2')),
      ("A,1e39\nC,1\n", {"kind": "regression"}, ("'1e39'", '{}:2')),
      ("A,much\nC,1\n", {"kind": "regression"}, ("'much'", '{}:2')),
      ("A,1\nC,1\n", {}, ("'1'", '{}', 'task.kind=regression')),
      ("A,x\nC,x\n", {}, ("'x'", '{}')),
      ("AC GT,1\n", {}, ("' '", '{}:2', 'task.symbols')),
      ("A\tC,1\n", {}, ("'\\t'", '{}:2')),
      ("A\0C,1\n", {}, ("'\\x00'", '{}:2')),
      ("A\x1bC,1\n", {}, ("'\\x1b'", '{}:2')),
      ("A\u200bC,1\n", {}, ("'\\u200b'", '{}:2')),
      ("a b\0c,1\n", {"symbols": "words"}, ("'\\x00'", '{}:2')),
      ("1 2 x,1\n", {"symbols": "integers"}, ("'x'", '{}:2')),
      ("1 2.0,1\n", {"symbols": "integers"}, ("'2.0'", '{}:2')),
      ("A,1\nC,0\n", {"kind": "ranking"}, ('task.kind', "'ranking'")),
      ("A,1\nC,0\n", {"symbols": "bytes"}, ('task.symbols', "'bytes'")),
      ("A,1\nC,0\n", {"metric": "pearson"}, ('task.metric', "'pearson'")),
      ("A,1\nC,0\n", {"metric": "f1", "kind": "regression"}, ('task.metric', "'f1'")),
      ("AC,1\nAN,0\n", {"alphabet": "ACGT"}, ("'N'", 'task.alphabet', '{}:3')),
      ("AC,1\nCA,0\n", {"alphabet": "A,C,G,T"}, ('task.alphabet', 'commas')),
      ("AC,1\nA,0\n", {"alphabet": " "}, ('task.alphabet',)),
      ("1 2,1\n3,0\n", {"alphabet": "1 2", "symbols": "integers"}, ("'3'", 'task.alphabet', '{}:3')),
    ],
  )  # fmt: skip
  def test_are_one_line(self, content, changes, facts, tmp_path):
    path = written(tmp_path, f"sequence,label\n{content}")
    with pytest.raises(UserError) as raised:
      read(path, **changes)
    assert_holds(raised.value, facts, path)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == [path]

  @pytest.mark.parametrize(
    ("value", "facts"),
    [
      (5, ("'5'", '{}:1')),
      (None, ("'None'", '{}:1')),
      ({"a": 1}, ('"{\'a\': 1}"', '{}:1')),
      (["A", None], ("'None'", '{}:1')),
      ([["A"]], ('"[\'A\']"', '{}:1')),
      (["A", ""], ("''", '{}:1')),
      (["A", "\n"], ("'\\n'", '{}:1')),
      ([], ('{}:1',)),
    ],
  )  # fmt: skip
  def test_sequences_of_a_wrong_json_type(self, value, facts, tmp_path):
    path = written(tmp_path, json.dumps({"sequence": value, "label": 1}), "a.jsonl")
    with pytest.raises(UserError) as raised:
      read(path)
    assert_holds(raised.value, facts, path)

  @pytest.mark.parametrize(
    ("rows", "facts"),
    [
      ("A,0,train\nC,1,dev\nC,1,Tests\n", ("'Tests'", '{}:4')),
      ("A,0,train\nC,1,\n", ("''", '{}:3')),
      ("A,0,train\nC,1,test\n", ("'part'", "{}", "of the validation part")),
      ("A,0,dev\nC,1,test\n", ("'part'", "{}", "of the train part")),
    ],
  )  # fmt: skip
  def test_of_given_splits(self, rows, facts, tmp_path):
    path = written(tmp_path, f"sequence,label,part\n{rows}")
    with pytest.raises(UserError) as raised:
      read(path, splits="part")
    assert_holds(raised.value, facts, path)

  def test_no_path(self):
    with pytest.raises(UserError, match="task.path is not set; set --config.task.path to a CSV"):
      custom(None, DEFAULT, None, None)

  def test_skip_invalid_leaves_them_out_counts_and_says_the_first(self, tmp_path, caplog):
    path = written(tmp_path, "sequence,label\nA,1\n,1\nA CT,0\nC,\nG,0\n")
    task = read(path, skip_invalid=True)
    assert samples(task) == {"all": [(["A"], 1), (["G"], 0)]}
    assert f"3 samples of {path} are left out; the first: empty sequence, {path}:3;" in caplog.text

  @pytest.mark.parametrize(
    ("name", "content", "first"),
    [
      ("a.csv", "sequence,label,part\nA,1,train\nA,1\nG,0,train\nG,0,dev\nG,0,devel\n",
       "2 fields where the header has 3, {}:3"),
      ("a.jsonl", '{"sequence": "A", "label": 1, "part": "train"}\n{"sequence": \n{"label": 1}\n'
       '{"sequence": "G", "label": 0, "part": "train"}\n'
       '{"sequence": "G", "label": 0, "part": "dev"}\n', "not a JSON object (Expecting value), {}:2"),
      ("a.fa", ">a 1 train\nA\n>b 1\nA\n>e 0 train\nG\n>c nan dev\nA\n>d 0 dev\nG\n",
       "2 words in a header that needs 3, {}:3"),
    ],
  )  # fmt: skip
  def test_skip_invalid_leaves_out_broken_rows_of_every_format(
    self, name, content, first, tmp_path, caplog
  ):
    path = written(tmp_path, content, name)
    with pytest.raises(UserError, match=re.escape(first.replace("{}", str(path)))):
      read(path, splits="part")
    task = read(path, splits="part", skip_invalid=True)
    assert samples(task) == {
      "train": [(["A"], 1), (["G"], 0)],
      "validation": [(["G"], 0)],
    }
    assert (
      f"2 samples of {path} are left out; the first: {first.replace('{}', str(path))}"
      in caplog.text
    )

  def test_skip_invalid_leaves_nothing(self, tmp_path):
    path = written(tmp_path, "sequence,label\n,1\n,0\n")
    with pytest.raises(UserError, match=f"no valid sample, {path}; unset task.skip_invalid"):
      read(path, skip_invalid=True)

  def test_of_a_whole_run_leave_nothing(self, tmp_path, capsys):
    path = written(tmp_path, "sequence,label\nA,1\n,0\n")
    arguments = [
      *("main", CONFIG, "--config.task.name=custom", f"--config.task.path={path}"),
      f"--workdir={tmp_path / 'run'}",
    ]
    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines() == [
      f"error: empty sequence, {path}:3; every row needs one"
    ]
    assert list(tmp_path.iterdir()) == [path]
