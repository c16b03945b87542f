"""Tests the GLUE tasks on the published files, on harmless variants of their format, and on wrong files."""

import collections
import re

import numpy as np
import pytest

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.tasks.glue import NAMES, glue

# Task -> its published header, some rows, and the samples (text, second text, label) in these rows.
FILES = {
  "cola": ("", ["x\t1\t\tA b.", "y\t0\t*\tC d."], [("A b.", None, 1), ("C d.", None, 0)]),
  "sst2": ("sentence\tlabel", ["a b \t1", "c d \t0"], [("a b ", None, 1), ("c d ", None, 0)]),
  "mrpc": (
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
    ["1\t7\t8\tA b.\tC d.", "0\t7\t8\tE\tF"],
    [("A b.", "C d.", 1), ("E", "F", 0)],
  ),
  "qqp": (
    "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    ["1\t2\t3\tA b?\tC d?\t0", "4\t5\t6\tE\tF\t1"],
    [("A b?", "C d?", 0), ("E", "F", 1)],
  ),
  "stsb": (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
    ["0\tg\tf\ty\t1\tn\tn\tA b.\tC d.\t3.800", "1\tg\tf\ty\t1\tn\tn\tE\tF\t0"],
    [("A b.", "C d.", 3.8), ("E", "F", 0)],
  ),
  "mnli": (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse"
    "\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
    [
      f"{i}\t1\t1n\tg\tb\tb\tp\tp\tA b.\tC d.\tneutral\t{label}"
      for i, label in enumerate(["neutral", "entailment", "contradiction"])
    ],
    [("A b.", "C d.", 2), ("A b.", "C d.", 1), ("A b.", "C d.", 0)],
  ),
  "qnli": (
    "index\tquestion\tsentence\tlabel",
    ["0\tA b?\tC d.\tentailment", "1\tE\tF\tnot_entailment"],
    [("A b?", "C d.", 0), ("E", "F", 1)],
  ),
  "rte": (
    "index\tsentence1\tsentence2\tlabel",
    ["0\tA b.\tC d.\tnot_entailment", "1\tE\tF\tentailment"],
    [("A b.", "C d.", 1), ("E", "F", 0)],
  ),
}


def text_of(name: str) -> str:
  header, rows, _ = FILES[name]
  return "\n".join(([header] if header else []) + rows) + "\n"


def make(data_dir, name: str, content: str | bytes):
  """Returns a task over files with the same content."""
  task = glue(name, data_dir)
  for path in task.files:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
  return task


def read(data_dir, name: str, content: str | bytes) -> list:
  return [(e.sequence, e.second, e.label) for e in make(data_dir, name, content).read()["train"]]


def check(data_dir, name: str, content: str | bytes, facts: str):
  """Checks that reading files with this content raises a UserError in one line with these facts."""
  task = make(data_dir, name, content)
  with pytest.raises(UserError, match=facts) as caught:
    task.read()
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_reads_the_published_columns(tmp_path, name):
  assert read(tmp_path, name, text_of(name)) == FILES[name][2]


@pytest.mark.parametrize(
  ("name", "metric", "labels"),
  [
    ("cola", "mcc", 2),
    ("sst2", "accuracy", 2),
    ("mrpc", "f1", 2),
    ("qqp", "f1", 2),
    ("stsb", "spearman", 0),
    ("mnli", "accuracy", 3),
    ("qnli", "accuracy", 2),
    ("rte", "accuracy", 2),
  ],
)
def test_each_task_has_the_metric_of_the_paper(name, metric, labels):
  task = tasks.get(f"glue_{name}", "")
  assert (task.answer.metric, len(task.answer.labels), task.max_length) == (metric, labels, 128)


def test_mnli_has_two_validation_sets(tmp_path):
  task = make(tmp_path, "mnli", text_of("mnli"))
  assert [path.name for path in task.files] == [
    "train.tsv",
    "dev_matched.tsv",
    "dev_mismatched.tsv",
  ]
  header, rows, _ = FILES["mnli"]
  task.files[2].write_text(f"{header}\n{rows[0]}\n")
  assert {name: len(part) for name, part in task.read().items()} == {
    "train": 3,
    "validation": 3,
    "test_mismatched": 1,
  }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
  "change",
  [
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text + "\n\n",
    lambda text: text.rstrip("\n"),
  ],
  ids=["byte_order_mark", "crlf", "blank_lines_at_the_end", "no_last_newline"],
)
def test_harmless_differences_change_nothing(tmp_path, name, change):
  assert read(tmp_path, name, change(text_of(name))) == FILES[name][2]


def test_columns_are_found_by_their_names(tmp_path):
  text = "label\tnote\tsentence\n1\tx\tA b.\n"
  assert read(tmp_path, "sst2", text) == [("A b.", None, 1)]


@pytest.mark.parametrize(
  "sentence",
  ['"A b', 'a "b" c"', "'a", "a\x0bb", "a\x85b", "a\u2028b", "word " * 10000],
  ids=[
    "open_quote",
    "quotes",
    "apostrophe",
    "vertical_tab",
    "next_line",
    "line_separator",
    "50000_letters",
  ],
)
def test_a_sentence_is_all_text_between_two_tabs(tmp_path, sentence):
  assert read(tmp_path, "sst2", f"sentence\tlabel\n{sentence}\t1\nb\t0\n") == [
    (sentence, None, 1),
    ("b", None, 0),
  ]


@pytest.mark.parametrize(
  ("name", "line", "fact"),
  [
    ("sst2", '"a\tb"\t1', "3 .*2"),
    ("sst2", "a b", "1 .*2"),
    ("sst2", "a b\t", "'' .*0, 1"),
    ("sst2", "a b\tnan", "'nan' .*0, 1"),
    ("sst2", "a b\t2", "'2' .*0, 1"),
    ("sst2", "a b\t1.0", "'1.0' .*0, 1"),
    ("sst2", "\t1", "empty"),
    ("sst2", " \t1", "empty"),
    ("sst2", "a\0b\t1", "NUL"),
    ("sst2", "a b\t1\0", "NUL"),
    # A tab inside the first text shifts the second.
    ("mrpc", "1\t7\t8\tA\tb.\tC d.", "6 .*5"),
    ("mrpc", "1\t7\t8\tA b.\t", "empty"),
    ("cola", "x\t1\tA b.", "3 .*4"),
    ("qnli", "0\tA b?\tC d.\tEntailment", "'Entailment' .*entailment, not_entailment"),
    (
      "mnli",
      "0\t1\t1n\tg\tb\tb\tp\tp\tA b.\tC d.\tneutral\t-",
      "'-' .*contradiction, entailment, neutral",
    ),
    ("stsb", "0\tg\tf\ty\t1\tn\tn\tA b.\tC d.\tnan", "'nan'"),
    ("stsb", "0\tg\tf\ty\t1\tn\tn\tA b.\tC d.\tinf", "'inf'"),
    ("stsb", "0\tg\tf\ty\t1\tn\tn\tA b.\tC d.\t", "''"),
    ("stsb", "0\tg\tf\ty\t1\tn\tn\tA b.\tC d.\thigh", "'high'"),
  ],
)
def test_bad_lines(tmp_path, name, line, fact):
  text = text_of(name)
  check(tmp_path, name, f"{text}{line}\n", rf"{fact}.*train\.tsv:{text.count(chr(10)) + 1}; ")


@pytest.mark.parametrize(
  ("header", "facts"),
  [
    ("sentence\tlabels", "0 .*'label'.* sentence, labels"),
    ("sentence\tlabel\tlabel", "2 .*'label'.* sentence, label, label"),
    ("sentence\tsentence\tlabel", "2 .*'sentence'.* sentence, sentence, label"),
    ("a b\t1", "0 .*'sentence'.* a b, 1"),
    ("sentence,label", "0 .*'sentence'.* sentence,label"),
  ],
)
def test_bad_headers(tmp_path, header, facts):
  line = "\t".join(["1"] * (header.count("\t") + 1))
  check(tmp_path, "sst2", f"{header}\n{line}\n", rf"{facts}, .*train\.tsv:1; ")


def test_broken_lines_of_qqp_are_left_out_and_counted(tmp_path, caplog):
  """The published file has such lines. GLUE's own readers leave them out as well."""
  header, rows, samples = FILES["qqp"]
  broken = ["1\t2\t3\tA b?", "C d?\t0", "1\t2\t3\tA b?\t\t0", "1\t2\t3\tA\tb?\tC d?\t0"]
  text = "\n".join([header, broken[0], rows[0], *broken[1:], rows[1]])
  assert read(tmp_path, "qqp", text) == samples
  for name, warning in zip(("train", "dev"), caplog.messages, strict=True):
    assert re.match(f"4 .*{tmp_path}/glue_data/QQP/{name}.tsv", warning)
  # A wrong label stays an error.
  check(tmp_path, "qqp", f"{text}\n1\t2\t3\tA\tB\t2\n", r"'2' .*0, 1.*train\.tsv:8; ")


def test_errors_of_unusable_files_say_where_to_get_the_right_one(tmp_path):
  path = tmp_path / "glue_data" / "RTE" / "train.tsv"
  get_it = rf"{path}; .*RTE .*gluebenchmark.com/tasks.*{path.parent}.*--config\.data_dir"
  with pytest.raises(UserError, match=get_it):
    glue("rte", tmp_path).read()
  check(tmp_path, "rte", "", get_it)
  check(tmp_path, "rte", "\ufeff \r\n\n", get_it)
  check(tmp_path, "rte", f"{FILES['rte'][0]}\n", f"{path}; ")
  text = text_of("rte").encode()
  check(tmp_path, "rte", text + b"2\tA\xff\tB\tentailment\n", f"UTF-8.*, {path}:4; ")
  check(tmp_path, "rte", text.decode().encode("utf-16"), f"UTF-8.*, {path}:1; ")


@pytest.mark.parametrize(
  ("name", "train", "validation"),
  [
    ("cola", {0: 2528, 1: 6023}, {0: 322, 1: 721}),
    ("sst2", {0: 29780, 1: 37569}, {0: 428, 1: 444}),
    ("mrpc", {0: 1194, 1: 2473}, {0: 129, 1: 279}),
    ("stsb", 5749, 1500),
  ],
)
def test_counts_of_the_real_files(shared, name, train, validation):
  parts = tasks.get(f"glue_{name}", shared / "data").read()
  assert list(parts) == ["train", "validation"]
  for examples, counts in zip(parts.values(), (train, validation), strict=True):
    found = collections.Counter(example.label for example in examples)
    assert (found if isinstance(counts, dict) else found.total()) == counts
    assert all((e.second is not None) == (name in ("mrpc", "stsb")) for e in examples)
  if name == "stsb":
    scores = np.array([example.label for part in parts.values() for example in part])
    assert (scores.min(), scores.max()) == (0, 5)


def test_the_error_for_a_missing_real_file_names_it(shared):
  """The real data has the validation set of QNLI but not its training set."""
  with pytest.raises(UserError, match=r"QNLI/train\.tsv; .*QNLI .*gluebenchmark"):
    tasks.get("glue_qnli", shared / "data").read()
