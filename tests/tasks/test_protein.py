"""Tests the protein tasks on the published files, on harmless variants of their format, and on wrong files."""

import collections
import re

import numpy as np
import pytest

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks import protein
from discipline_jax.tasks.features import featurise

LOCALIZATION = ">a Nucleus-U\nMKV\nLLA\n>b Plastid-M test\nACDEF\n"
STABILITY = ">a 0.5\nMKV\nLLA\n>b -1.25\nACDEF\n"


def make(data_dir, kind: str, content: bytes, **options):
  """Returns a task over three files with the same content."""
  task = getattr(protein, kind)(data_dir, **options)
  for path in task.files:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
  return task


def check(data_dir, kind: str, content: bytes, facts: str):
  """Checks that reading files with this content raises a UserError in one line with these facts."""
  with pytest.raises(UserError, match=facts) as caught:
    make(data_dir, kind, content).read()
  assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
  ("kind", "text", "labels"),
  [("localization", LOCALIZATION, [7, 9]), ("stability", STABILITY, [0.5, -1.25])],
)
def test_reads_sequences_of_several_lines(tmp_path, kind, text, labels):
  parts = make(tmp_path, kind, text.encode()).read()
  assert list(parts) == ["train", "validation", "test"]
  for examples in parts.values():
    assert [(e.sequence, e.label) for e in examples] == list(
      zip(["MKVLLA", "ACDEF"], labels, strict=True)
    )


@pytest.mark.parametrize("form", ["M", "S", "U"])
def test_all_ten_locations_in_all_three_forms(tmp_path, form):
  text = "".join(f">x {name}-{form}\nM\n" for name in protein.LOCATIONS)
  examples = make(tmp_path, "localization", text.encode()).read()["train"]
  assert [example.label for example in examples] == list(range(10))


@pytest.mark.parametrize(
  "change",
  [
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: "\n" + text.replace("\n>", "\n\n>") + "\n\n",
    lambda text: text.rstrip("\n"),
    lambda text: text.replace("MKV", "mkv"),
    lambda text: text.replace("MKV", "M K V "),
  ],
  ids=["byte_order_mark", "crlf", "blank_lines", "no_last_newline", "lower_case", "blanks"],
)
def test_harmless_differences_change_nothing(tmp_path, change):
  expected = make(tmp_path, "stability", STABILITY.encode()).read()
  assert make(tmp_path, "stability", change(STABILITY).encode()).read() == expected


def test_other_residues_are_read_as_in_the_code_of_plus(tmp_path):
  rare, plain = b">a 1\nOUBZXJ*-ouz\n", b">a 1\nKCXXXXXXKCX\n"
  vocabulary = make_vocabulary(protein.ALPHABET.symbols, 30)
  found, expected = (
    featurise(make(tmp_path, "stability", content), vocabulary, 20).symbols
    for content in (rare, plain)
  )
  np.testing.assert_array_equal(found, expected)
  k, c, x = (3 + "ACDEFGHIKLMNPQRSTVWYX".index(letter) for letter in "KCX")
  np.testing.assert_array_equal(found[0], [1, k, c, x, x, x, x, x, x, k, c, x, 2])


def test_a_sequence_of_50000_letters_is_read_whole_and_cut_by_featurise(tmp_path, caplog):
  task = make(tmp_path, "stability", b">a 1\n" + b"MKVLA" * 10000 + b"\n")
  assert [len(example.sequence) for example in task.read()["train"]] == [50000]
  features = featurise(task, make_vocabulary(protein.ALPHABET.symbols, 30), 52)
  assert features.symbols.shape == (3, 52)
  (warning,) = caplog.messages
  assert re.match("3 of 3 .*task.max_length = 52", warning)


@pytest.mark.parametrize(
  ("kind", "text", "line", "fact"),
  [
    ("stability", ">a 1\nMK1V\n", 2, "'1' .*ACDEFGHIKLMNPQRSTVWYX"),
    ("stability", ">a 1\nMKV\nLLA\nA?\n>b 1\nA?\n", 4, r"'\?' .*ACDEFGHIKLMNPQRSTVWYX"),
    ("stability", ">a 1\nMK\0V\n", 2, r"'\\x00' .*ACDEFGHIKLMNPQRSTVWYX"),
    ("stability", ">a 1\nMK\tV\n", 2, r"'\\t' .*ACDEFGHIKLMNPQRSTVWYX"),
    ("stability", ">a 1\nMKßV\n", 2, "'ß' .*ACDEFGHIKLMNPQRSTVWYX"),
    ("stability", ">a 1\nMK\u0131\n", 2, "'\u0131' .*ACDEFGHIKLMNPQRSTVWYX"),
    ("stability", ">a 1\nM\n>b 1\n>c 1\nM\n", 3, "'b 1'"),
    ("stability", ">a 1\nM\n>b 1\n", 3, "'b 1'"),
    ("stability", ">a 1\n \n\n", 1, "'a 1'"),
    ("stability", ">a 1\nM\n>b\nM\n", 3, "'b'"),
    ("stability", ">\nM\n", 1, "''"),
    ("stability", ">a nan\nM\n", 1, "'nan'"),
    ("stability", ">a -inf\nM\n", 1, "'-inf'"),
    ("stability", ">a high\nM\n", 1, "'high'"),
    ("stability", ">a 1\0\nM\n", 1, r"'1\\x00'"),
    ("stability", "\nMKV\n>a 1\nM\n", 2, "`>name ...`.*'MKV'"),
    ("localization", ">a Nucleus\nM\n", 1, "'Nucleus' .*Cell.membrane, .*-M, -S .*-U"),
    ("localization", ">a Nucleus-X\nM\n", 1, "'Nucleus-X' .*Cell.membrane, .*-M, -S .*-U"),
    ("localization", ">a Nucleus-\nM\n", 1, "'Nucleus-' .*Cell.membrane, "),
    ("localization", ">a nan\nM\n", 1, "'nan' .*Cell.membrane, "),
    ("localization", ">a nucleus-U\nM\n", 1, "'nucleus-U' .*Cell.membrane, "),
  ],
)
def test_bad_lines(tmp_path, kind, text, line, fact):
  place = rf"{tmp_path}/protein/{kind}_train\.fa:{line}; "
  check(tmp_path, kind, text.encode(), rf"{fact}.*, {place}")


def test_errors_of_unusable_files_say_where_to_get_the_right_one(tmp_path):
  path = tmp_path / "protein" / "stability_train.fa"
  get_it = rf"{path}; .*stability_train\.fa .*ailab.snu.ac.kr/PLUS.*{path}.*--config\.data_dir"
  with pytest.raises(UserError, match=get_it):
    protein.stability(tmp_path).read()
  check(tmp_path, "stability", b"", get_it)
  check(tmp_path, "stability", b"\xef\xbb\xbf\r\n \n", get_it)
  check(tmp_path, "stability", b">a 1\nM\xff\n", f"UTF-8.*, {path}:2; ")
  # A byte order mark has three bytes. They must not change the line number.
  check(tmp_path, "stability", b"\xef\xbb\xbf>a 1\n\xffM\n", f"UTF-8.*, {path}:2; ")


def test_invalid_samples_can_be_left_out_and_are_counted(tmp_path, caplog):
  text = b">a 1\nM\n>b nan\nM\n>c 1\nM1\n>d 2\nK\n>e\nM\n>f 1\n"
  examples = make(tmp_path, "stability", text, skip_invalid=True).read()["train"]
  assert [(e.sequence, e.label) for e in examples] == [("M", 1), ("K", 2)]
  path = f"{tmp_path}/protein/stability_train.fa"
  assert re.match(f"4 .*{path} .*'nan' .*{path}:3;", caplog.messages[0])


def test_a_file_without_valid_samples_is_an_error_even_if_they_can_be_left_out(tmp_path):
  task = make(tmp_path, "stability", b">a nan\nM\n", skip_invalid=True)
  with pytest.raises(
    UserError, match=f"{tmp_path}/protein/stability_train.fa; .*task.skip_invalid"
  ):
    task.read()


@pytest.mark.parametrize(
  ("kind", "counts", "metric", "max_length"),
  [
    ("localization", (1380, 275, 2768), "accuracy", 512),
    ("stability", (53571, 2512, 12851), "spearman", 52),
    ("fluorescence", (21446, 5362, 27217), "spearman", 239),
  ],
)
def test_counts_of_the_real_files(shared, kind, counts, metric, max_length):
  task = tasks.get(f"protein_{kind}", shared / "data")
  parts = task.read()
  assert tuple(len(parts[name]) for name in ("train", "validation", "test")) == counts
  assert (task.answer.metric, task.max_length) == (metric, max_length)
  if kind != "localization":
    # The maximum is the longest sequence in the papers, with [CLS] and [SEP].
    assert max(len(e.sequence) for part in parts.values() for e in part) == max_length - 2


def test_classes_of_the_real_localization_files(shared):
  task = tasks.get("protein_localization", shared / "data")
  for path, examples in zip(task.files, task.read().values(), strict=True):
    headers = re.findall(r"^>\S+ (\S+)-[MSU]\b", path.read_text(), re.MULTILINE)
    found = collections.Counter(task.answer.labels[int(e.label)] for e in examples)
    assert found == collections.Counter(headers)
    assert len(found) == 10
