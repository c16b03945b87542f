"""The DNA files as they are published, and as they are not."""

import collections

import numpy as np
import pytest

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.dna import ALPHABET, read_histone, read_splice
from discipline_jax.tasks.features import featurise

HISTONE = ">a\nACGT\n0\n>b\nNRYA\n1\n"
SPLICE = "EI,    A-1,     ACGT\nIE,    B-2,   NDSR\nN,  C-3,  TTTT\n"


def test_reads_histone(tmp_path):
  path = tmp_path / "H3.txt"
  path.write_text(HISTONE)
  assert [(e.sequence, e.label) for e in read_histone(path)] == [("ACGT", 0), ("NRYA", 1)]


def test_reads_splice(tmp_path):
  path = tmp_path / "splice.txt"
  path.write_text(SPLICE)
  assert [(e.sequence, e.label) for e in read_splice(path)] == [
    ("ACGT", 0),
    ("NDSR", 1),
    ("TTTT", 2),
  ]


@pytest.mark.parametrize(
  "change",
  [
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text + "\n\n",
    lambda text: text.rstrip("\n"),
    lambda text: text.replace("ACGT", "acgt").replace("NDSR", "ndsr"),
    lambda text: text.replace("TTTT", "UUUU"),
  ],
  ids=["byte_order_mark", "crlf", "blank_lines_at_the_end", "no_last_newline", "lower_case", "rna"],
)
def test_harmless_differences_change_nothing(tmp_path, change):
  vocabulary = make_vocabulary(ALPHABET.symbols, 30)
  (tmp_path / "dna").mkdir()
  for name, text in (("dna_h3", HISTONE), ("dna_splice", SPLICE)):
    task = tasks.get(name, tmp_path)
    (path,) = task.files
    path.write_text(text)
    expected = featurise(task, vocabulary, max_length=20)
    path.write_bytes(change(text).encode())
    found = featurise(task, vocabulary, max_length=20)
    np.testing.assert_array_equal(found.symbols, expected.symbols)
    np.testing.assert_array_equal(found.labels, expected.labels)


@pytest.mark.parametrize(
  ("text", "line", "message"),
  [
    (">a\nACGT\n0\n>b\nAC", 4, ">b lacks its sequence or label line"),
    (">a\nACGT\n>b\nACGT\n1\n", 1, ">a lacks its sequence or label line"),
    (">a\n0\n>b\nACGT\n1\n", 1, ">a lacks its sequence or label line"),
    (">a\nACGT\n0.5\n", 3, "label '0.5' is not the integer 0 or 1"),
    (">a\nACGT\n2\n", 3, "label '2' is not the integer 0 or 1"),
    (">a\nACGT\nnan\n", 3, "label 'nan' is not the integer 0 or 1"),
    (">a\nACXT\n0\n", 2, "'X' is not a nucleotide"),
    (">a\nAC GT\n0\n", 2, "' ' is not a nucleotide"),
    (">a\n\n0\n", 2, "empty sequence"),
    ("a\nACGT\n0\n", 1, "expected a line `>name`, got 'a'"),
    (">a\nACGT\n0\n\n>b\nACGT\n1\n", 4, "expected a line `>name`, got ''"),
    (">a\nAC\0T\n0\n", 2, r"'\\x00' is not a nucleotide"),
    (">a\nACßT\n0\n", 2, "'ß' is not a nucleotide"),
  ],
)
def test_bad_histone_lines(tmp_path, text, line, message):
  check(read_histone, tmp_path / "H3.txt", text.encode(), rf"{message}.*H3\.txt:{line}; ")


@pytest.mark.parametrize(
  ("text", "line", "message"),
  [
    ("EI, a, ACGT\nXX, b, ACGT\n", 2, "class 'XX' is not one of EI, IE, N"),
    ("EI, a, ACGT\nIE, ACGT\n", 2, "2 fields, not"),
    ("EI, a, AC1T\n", 1, "'1' is not a nucleotide"),
    ("EI, a, \n", 1, "empty sequence"),
  ],
)
def test_bad_splice_lines(tmp_path, text, line, message):
  check(read_splice, tmp_path / "splice.txt", text.encode(), rf"{message}.*splice\.txt:{line}; ")


@pytest.mark.parametrize("read", [read_histone, read_splice])
def test_unusable_files_say_where_to_get_the_right_one(tmp_path, read):
  path = tmp_path / "H3.txt"
  get_it = r"get data/H3\.txt of github\.com/Doulrs/Hilbert-CNN and put it at .*H3\.txt, or set --config\.data_dir"
  with pytest.raises(UserError, match=rf"no file .*H3\.txt; {get_it}"):
    read(path)
  check(read, path, b"", f"empty file, .*; {get_it}")
  check(read, path, b" \n\n", "empty file, ")
  check(read, path, b">a\nAC\xff\n0\n", r"not UTF-8 text, .*H3\.txt:2; ")
  path.unlink()
  path.mkdir()
  with pytest.raises(UserError, match="Is a directory, "):
    read(path)


def check(read, path, content: bytes, message: str):
  path.write_bytes(content)
  with pytest.raises(UserError, match=message) as caught:
    read(path)
  assert "\n" not in str(caught.value)


def test_unknown_task():
  with pytest.raises(
    UserError,
    match="task.name = 'dna_h5' is not one of: .*dna_h3, dna_h3k9ac, dna_h4, dna_planted, dna_splice, glue_cola,",
  ):
    tasks.get("dna_h5", "")


@pytest.mark.parametrize(
  ("name", "counts", "longest"),
  [("dna_splice", {0: 767, 1: 768, 2: 1655}, 60), ("dna_h3", 4185, 500), ("dna_h3k9ac", 7767, 500)],
)
def test_counts_of_the_real_files(shared, name, counts, longest):
  examples = tasks.get(name, shared / "data").read()["all"]
  found = collections.Counter(example.label for example in examples)
  assert (found if isinstance(counts, dict) else found.total()) == counts
  assert max(len(example.sequence) for example in examples) == longest


def test_planted_motifs_are_where_the_label_says():
  examples = tasks.get("dna_planted", "").read()["all"]
  assert collections.Counter(example.label for example in examples) == {0: 1334, 1: 1333, 2: 1333}
  for label, motif, place in ((0, "GTAAGT", slice(20, 26)), (1, "TTTCAG", slice(14, 20))):
    share = np.mean([e.sequence[place] == motif for e in examples if e.label == label])
    # in a quarter of the samples a letter is drawn anew, and is the same one in a quarter of those
    assert share == pytest.approx(0.75 + 0.25 * 0.25, abs=0.03)
  assert examples == tasks.get("dna_planted", "").read()["all"]
