"""Tests the DNA tasks on the published files, on harmless variants of their format, and on wrong files."""

import collections
import errno
import os

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
    np.testing.assert_array_equal(found.targets["labels"], expected.targets["labels"])


@pytest.mark.parametrize(
  ("text", "line", "fact"),
  [
    (">a\nACGT\n0\n>b\nAC", 4, ">b"),
    (">a\nACGT\n>b\nACGT\n1\n", 1, ">a"),
    (">a\n0\n>b\nACGT\n1\n", 1, ">a"),
    (">a\nACGT\n0.5\n", 3, "'0.5'"),
    (">a\nACGT\n2\n", 3, "'2'"),
    (">a\nACGT\nnan\n", 3, "'nan'"),
    (">a\nACXT\n0\n", 2, "'X' .*ACGTRYSWKMBDHVN"),
    (">a\nAC GT\n0\n", 2, "' ' .*ACGTRYSWKMBDHVN"),
    (">a\n\n0\n", 2, ""),
    ("a\nACGT\n0\n", 1, "`>name`.*'a'"),
    (">a\nACGT\n0\n\n>b\nACGT\n1\n", 4, "`>name`.*''"),
    (">a\nAC\0T\n0\n", 2, r"'\\x00' .*ACGTRYSWKMBDHVN"),
    (">a\nACßT\n0\n", 2, "'ß' .*ACGTRYSWKMBDHVN"),
  ],
)
def test_bad_histone_lines(tmp_path, text, line, fact):
  check(read_histone, tmp_path / "H3.txt", text.encode(), rf"{fact}.*, {tmp_path}/H3\.txt:{line}; ")


@pytest.mark.parametrize(
  ("text", "line", "fact"),
  [
    ("EI, a, ACGT\nXX, b, ACGT\n", 2, "'XX' .*EI, IE, N"),
    ("EI, a, ACGT\nIE, ACGT\n", 2, "2 .*`class, name, sequence`"),
    ("EI, a, AC1T\n", 1, "'1' .*ACGTRYSWKMBDHVN"),
    ("EI, a, \n", 1, ""),
  ],
)
def test_bad_splice_lines(tmp_path, text, line, fact):
  path = tmp_path / "splice.txt"
  check(read_splice, path, text.encode(), rf"{fact}.*, {path}:{line}; ")


@pytest.mark.parametrize("read", [read_histone, read_splice])
def test_errors_of_unusable_files_say_where_to_get_the_right_one(tmp_path, read):
  path = tmp_path / "H3.txt"
  get_it = rf"{path}; .*data/H3\.txt .*github\.com/Doulrs/Hilbert-CNN .*{path}.*--config\.data_dir"
  with pytest.raises(UserError, match=get_it):
    read(path)
  check(read, path, b"", get_it)
  check(read, path, b" \n\n", get_it)
  check(read, path, b">a\nAC\xff\n0\n", f"UTF-8.*, {path}:2; ")
  path.unlink()
  path.mkdir()
  with pytest.raises(UserError, match=f"{os.strerror(errno.EISDIR)}.*{path}; "):
    read(path)


def check(read, path, content: bytes, facts: str):
  """Checks that reading a file with this content raises a UserError in one line with these facts."""
  path.write_bytes(content)
  with pytest.raises(UserError, match=facts) as caught:
    read(path)
  assert "\n" not in str(caught.value)


def test_unknown_task():
  with pytest.raises(
    UserError,
    match="task.name = 'dna_h5' .*dna_h3, dna_h3k9ac, dna_h4, dna_introns, dna_planted, dna_splice, glue_cola,",
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


def test_planted_motifs_are_at_the_place_of_their_class():
  examples = tasks.get("dna_planted", "").read()["all"]
  assert collections.Counter(example.label for example in examples) == {0: 1334, 1: 1333, 2: 1333}
  for label, motif, place in ((0, "GTAAGT", slice(20, 26)), (1, "TTTCAG", slice(14, 20))):
    share = np.mean([e.sequence[place] == motif for e in examples if e.label == label])
    # A quarter of the samples has a random letter in the motif. In a quarter of those it is the same letter.
    assert share == pytest.approx(0.75 + 0.25 * 0.25, abs=0.03)
  assert examples == tasks.get("dna_planted", "").read()["all"]


@pytest.mark.parametrize(
  ("name", "longest"), [("dna_h3", 500), ("dna_h4", 500), ("dna_h3k9ac", 500), ("dna_splice", 60)]
)
def test_a_whole_sequence_has_room_with_its_two_special_tokens(name, longest):
  assert tasks.get(name, "").max_length == longest + 2
