"""The protein files as they are published, and as they are not."""

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
  """The task over three files with the same content."""
  task = getattr(protein, kind)(data_dir, **options)
  for path in task.files:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
  return task


def check(data_dir, kind: str, content: bytes, message: str):
  with pytest.raises(UserError, match=message) as caught:
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


def test_residues_that_are_no_amino_acid_are_read_as_plus_reads_them(tmp_path):
  rare, plain = b">a 1\nOUBZXJ*-ouz\n", b">a 1\nKCXXXXXXKCX\n"
  vocabulary = make_vocabulary(protein.ALPHABET.symbols, 30)
  found, expected = (
    featurise(make(tmp_path, "stability", content), vocabulary, 20).symbols
    for content in (rare, plain)
  )
  np.testing.assert_array_equal(found, expected)
  k, c, x = (3 + "ACDEFGHIKLMNPQRSTVWYX".index(letter) for letter in "KCX")
  np.testing.assert_array_equal(found[0], [1, k, c, x, x, x, x, x, x, k, c, x, 2])


def test_a_sequence_of_50000_letters_is_read_whole_and_cut_later(tmp_path, caplog):
  task = make(tmp_path, "stability", b">a 1\n" + b"MKVLA" * 10000 + b"\n")
  assert [len(example.sequence) for example in task.read()["train"]] == [50000]
  features = featurise(task, make_vocabulary(protein.ALPHABET.symbols, 30), 52)
  assert features.symbols.shape == (3, 52)
  assert "3 of 3 sequences are longer than task.max_length = 52 tokens and were cut" in caplog.text


@pytest.mark.parametrize(
  ("kind", "text", "line", "message"),
  [
    ("stability", ">a 1\nMK1V\n", 2, "'1' is not an amino acid"),
    ("stability", ">a 1\nMKV\nLLA\nA?\n>b 1\nA?\n", 4, r"'\?' is not an amino acid"),
    ("stability", ">a 1\nMK\0V\n", 2, r"'\\x00' is not an amino acid"),
    ("stability", ">a 1\nMK\tV\n", 2, r"'\\t' is not an amino acid"),
    ("stability", ">a 1\nMKßV\n", 2, "'ß' is not an amino acid"),
    ("stability", ">a 1\nMK\u0131\n", 2, "'\u0131' is not an amino acid"),
    ("stability", ">a 1\nM\n>b 1\n>c 1\nM\n", 3, "no sequence after 'b 1'"),
    ("stability", ">a 1\nM\n>b 1\n", 3, "no sequence after 'b 1'"),
    ("stability", ">a 1\n \n\n", 1, "no sequence after 'a 1'"),
    ("stability", ">a 1\nM\n>b\nM\n", 3, "no label after the name in 'b'"),
    ("stability", ">\nM\n", 1, "no label after the name in ''"),
    ("stability", ">a nan\nM\n", 1, "label 'nan' is not a finite number"),
    ("stability", ">a -inf\nM\n", 1, "label '-inf' is not a finite number"),
    ("stability", ">a high\nM\n", 1, "label 'high' is not a finite number"),
    ("stability", ">a 1\0\nM\n", 1, r"label '1\\x00' is not a finite number"),
    ("stability", "\nMKV\n>a 1\nM\n", 2, "expected a line `>name ...`, got 'MKV'"),
    ("localization", ">a Nucleus\nM\n", 1, "label 'Nucleus' is not one of Cell.membrane, .* with"),
    ("localization", ">a Nucleus-X\nM\n", 1, "label 'Nucleus-X' is not one of .* -M, -S or -U"),
    ("localization", ">a Nucleus-\nM\n", 1, "label 'Nucleus-' is not one of"),
    ("localization", ">a nan\nM\n", 1, "label 'nan' is not one of"),
    ("localization", ">a nucleus-U\nM\n", 1, "label 'nucleus-U' is not one of"),
  ],
)
def test_bad_lines(tmp_path, kind, text, line, message):
  check(tmp_path, kind, text.encode(), rf"{message}.*{kind}_train\.fa:{line}; ")


def test_unusable_files_say_where_to_get_the_right_one(tmp_path):
  get_it = (
    r"get stability_train\.fa from the PLUS page .* and put it at .*, or set --config\.data_dir"
  )
  with pytest.raises(UserError, match=rf"no file .*stability_train\.fa; {get_it}"):
    protein.stability(tmp_path).read()
  check(tmp_path, "stability", b"", f"empty file, .*; {get_it}")
  check(tmp_path, "stability", b"\xef\xbb\xbf\r\n \n", "empty file, ")
  not_text = r"not UTF-8 text, .*stability_train\.fa:2; "
  check(tmp_path, "stability", b">a 1\nM\xff\n", not_text)
  # three bytes further on, which must not be counted as one line less
  check(tmp_path, "stability", b"\xef\xbb\xbf>a 1\n\xffM\n", not_text)


def test_invalid_samples_can_be_left_out_and_are_counted(tmp_path, caplog):
  text = b">a 1\nM\n>b nan\nM\n>c 1\nM1\n>d 2\nK\n>e\nM\n>f 1\n"
  examples = make(tmp_path, "stability", text, skip_invalid=True).read()["train"]
  assert [(e.sequence, e.label) for e in examples] == [("M", 1), ("K", 2)]
  assert re.search(
    r"4 samples of \S*stability_train\.fa are left out; the first: label 'nan' .*train\.fa:3;",
    caplog.text,
  )


def test_nothing_left_is_an_error(tmp_path):
  task = make(tmp_path, "stability", b">a nan\nM\n", skip_invalid=True)
  with pytest.raises(UserError, match="no valid sample, .*train.fa; unset task.skip_invalid"):
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
  assert (task.metric, task.max_length) == (metric, max_length)
  if kind != "localization":
    # the papers' longest proteins are let in whole
    assert max(len(e.sequence) for part in parts.values() for e in part) == max_length - 2


def test_classes_of_the_real_localization_files(shared):
  task = tasks.get("protein_localization", shared / "data")
  for path, examples in zip(task.files, task.read().values(), strict=True):
    headers = re.findall(r"^>\S+ (\S+)-[MSU]\b", path.read_text(), re.MULTILINE)
    found = collections.Counter(task.labels[int(e.label)] for e in examples)
    assert found == collections.Counter(headers)
    assert len(found) == 10
