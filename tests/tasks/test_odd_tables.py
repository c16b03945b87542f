"""Tests tables of kinds that people bring: each is read rightly, or refused for a reason that is true."""

import collections
import re

import pytest

from discipline_jax.errors import UserError
from tests.tasks.own_tables import read, written

ACIDS = tuple("ACDEFGHIKLMNPQRSTVWY")
CELL = {"Cell membrane": 20, "Cell wall": 20, "Golgi apparatus": 20, "Nucleus": 20}


def counts(task):
  """Returns the number of samples of each class in each part."""
  labels = task.answer.labels
  return {
    part: dict(collections.Counter(labels[int(one.label)] for one in rows))
    for part, rows in task.read().items()
  }


@pytest.mark.parametrize(
  ("name", "content", "changes", "symbols", "expected"),
  [
    # A spreadsheet's semicolons, byte-order mark and line ends.
    ("a.csv", "\ufeffid;sequence;label\r\ns0;CAG;no\r\ns1;TCA;yes\r\n", {}, "ACGT", {"all": {"no": 1, "yes": 1}}),
    # Soft-masked letters in wrapped lines.
    ("a.fasta", ">r0 bg\nTACgt\nggC\n>r1 enh\nACT\n", {"case": "upper"}, "ACGT", {"all": {"bg": 1, "enh": 1}}),
    # Residues with blanks between them, of which some are missing.
    ("a.csv", "sequence,label\nQ D DE G,s\nM Q MK G,m\n", {}, "DEGKMQ", {"all": {"m": 1, "s": 1}}),
    # Labels of more than one word.
    ("a.fasta", ">P0 Cell wall\nMK\n>P1 Nucleus\nKM\n", {"label_separator": " "}, "KM",
     {"all": {"Cell wall": 1, "Nucleus": 1}}),
    # Empty columns and rows of a spreadsheet.
    ("a.csv", "sequence,label,,\nCGG,0,,\nAGT,1,,\n,,,\n,,,\n", {}, "ACGT", {"all": {"0": 1, "1": 1}}),
    # Blanks after commas.
    ("a.csv", "id, sequence, label\ns0, TAG, 0\ns1, GCA, 1\n", {}, "ACGT", {"all": {"0": 1, "1": 1}}),
    # Other names of the parts, and an index.
    ("a.csv", ",sequence,label,split\n0,TAGC,0,Train\n1,GCAT,1,Train\n2,T,1,val\n3,G,0,Test\n",
     {"splits": "split"}, "ACGT", {"train": {"0": 1, "1": 1}, "validation": {"1": 1}, "test": {"0": 1}}),
    # Labels that are none.
    ("a.csv", "sequence,label\nTG,NA\nAC,x\nGT,y\n", {"skip_invalid": True}, "ACGT", {"all": {"x": 1, "y": 1}}),
    # Texts that a spreadsheet must not change.
    ("a.csv", 'sequence,label\n="AGT",="01"\n"=""AAC""",x\n', {}, "ACGT", {"all": {"01": 1, "x": 1}}),
    # Carriage returns alone.
    ("a.csv", "sequence,label\rAGT,0\rAAC,1\r", {}, "ACGT", {"all": {"0": 1, "1": 1}}),
    # The text of Python's lists.
    ("a.csv", 'sequence,label\n"[73, 5]",0\n"[5, 120]",1\n', {"symbols": "integers"}, ["5", "73", "120"],
     {"all": {"0": 1, "1": 1}}),
  ],
)  # fmt: skip
def test_are_read(name, content, changes, symbols, expected, tmp_path):
  task = read(written(tmp_path, content, name), **changes)
  assert task.alphabet.symbols == tuple(symbols)
  assert counts(task) == expected


def test_labels_that_are_names_of_parts_are_said(tmp_path, caplog):
  read(written(tmp_path, ">a train\nAC\n>b test\nAA\n", "a.fa"))
  assert "names of parts (test, train)" in caplog.text
  caplog.clear()
  read(written(tmp_path, ">a 0 train\nAC\n>b 1 train\nAA\n>c 1 dev\nAA\n", "a.fa"), splits="any")
  assert "names of parts" not in caplog.text


def test_a_number_with_an_underscore_is_no_integer(tmp_path):
  """Python's own reader takes 60_61 for 6061."""
  with pytest.raises(UserError, match=r"'60_61' is not an integer, .*a\.csv:2"):
    read(written(tmp_path, "sequence,label\n60_61 5,0\n5 60,1\n"), symbols="integers")


@pytest.mark.parametrize(
  ("name", "changes", "symbols", "expected"),
  [
    ("15_semicolon_bom.csv", {}, tuple("ACGT"), {"all": {"no": 30, "yes": 30}}),
    ("16_softmasked_wrapped.fasta", {"case": "upper"}, tuple("ACGT"), {"all": {"background": 30, "enhancer": 30}}),
    ("17_kmer3.tsv", {"symbols": "words"}, 64, {"all": {"0": 30, "1": 30}}),
    ("18_protbert_blanks.csv", {}, ACIDS, {"all": {"membrane": 30, "soluble": 30}}),
    ("19_smiles.csv", {"sequence_column": "smiles", "label_column": "p_np"}, None, {"all": {"0": 30, "1": 30}}),
    ("20_labels_with_blanks.fasta", {"label_separator": " "}, ACIDS, {"all": CELL}),
    ("20_labels_with_blanks.fasta", {"label_pattern": r"^\S+ (.+)$"}, ACIDS, {"all": CELL}),
    ("21_floats_{split}.csv", {}, tuple("ACGT"),
     {"train": {"0": 30, "1": 30}, "validation": {"0": 10, "1": 10}, "test": {"0": 10, "1": 10}}),
    ("24_spreadsheet_empty_columns.csv", {}, tuple("ACGT"), {"all": {"0": 30, "1": 30}}),
    ("25_blank_after_comma.csv", {}, tuple("ACGT"), {"all": {"0": 30, "1": 30}}),
    ("26_split_val.csv", {"splits": "split"}, tuple("ACGT"),
     {"train": {"0": 30, "1": 30}, "validation": {"0": 5, "1": 5}, "test": {"0": 5, "1": 5}}),
    ("27_na_labels.csv", {"skip_invalid": True}, tuple("ACGT"), {"all": {"binder": 40, "nonbinder": 30}}),
    ("34_mac_line_ends.csv", {}, tuple("ACGT"), {"all": {"0": 30, "1": 30}}),
    ("38_python_lists.csv", {"symbols": "integers"}, tuple(map(str, range(40, 81))), {"all": {"0": 30, "1": 30}}),
  ],
)  # fmt: skip
def test_real_files(name, changes, symbols, expected, shared):
  if not (shared / "cases").is_dir():
    pytest.skip("no such files")
  task = read(shared / "cases" / name, **changes)
  assert counts(task) == expected
  if isinstance(symbols, int):
    assert len(task.alphabet.symbols) == symbols
  elif symbols is not None:
    assert task.alphabet.symbols == symbols


@pytest.mark.parametrize(
  ("name", "facts"),
  [
    ("19_smiles.csv", [":1;", "'sequence'", "'smiles', 'p_np', 'name'", "task.sequence_column"]),
    ("20_labels_with_blanks.fasta", [":1;", "label_separator=' '"]),
    ("27_na_labels.csv", [":2;", "'NA'", "task.skip_invalid"]),
  ],
)
def test_real_files_that_are_refused(name, facts, shared):
  if not (shared / "cases").is_dir():
    pytest.skip("no such files")
  with pytest.raises(UserError) as raised:
    read(shared / "cases" / name)
  for fact in [name, *facts]:
    assert fact in str(raised.value)


@pytest.mark.parametrize(
  ("fields", "field"),
  [
    ({"sequence_column": "z"}, "task.sequence_column"),
    ({"sequence_column": "sequence,z"}, "task.sequence_column"),
    ({"label_column": "z"}, "task.label_column"),
    ({"label_column": "label,z", "kind": "multilabel"}, "task.label_column"),
    ({"splits": "z"}, "task.splits"),
    ({"group_column": "z"}, "task.group_column"),
  ],
)
def test_a_missing_column_is_said_with_the_field_that_names_it(fields, field, tmp_path):
  path = written(tmp_path, "sequence,label\nAC,1\nCA,0\n")
  with pytest.raises(UserError, match=f"'z'.*{path}:1;") as raised:
    read(path, **fields)
  assert re.findall(r"\b(?:task|predict|embed)\.\w+", str(raised.value)) == [field]
