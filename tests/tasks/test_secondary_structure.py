"""Tests the files of secondary structure: small ones by hand, and the real ones by their published counts."""

import zipfile

import numpy as np
import pytest

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.tasks.secondary_structure import read_cb513, read_flip
from tests.testdata.small_files import write_structures

HEADER = "input, dssp3, dssp8, disorder, cb513_mask\n"
ROW = "A C X,H E C,G B T,1.0 0.0 1.0,1.0 1.0 0.0\n"


def write_flip(path, sequences, labels, masks):
  with zipfile.ZipFile(path, "w") as archive:
    for name, text in (("sequences", sequences), ("sampled", labels), ("mask", masks)):
      archive.writestr(f"splits/{name}.fasta", text)
  return path


SEQUENCES = ">a\nACD\n>b\nEFG\n>c\nHIK\n"
LABELS = (
  ">c SET=test VALIDATION=False\nCCC\n>a SET=train VALIDATION=False\nHEC\n"
  ">b SET=train VALIDATION=True\nEEH\n"
)
MASKS = ">a\n101\n>b\n111\n>c\n011\n"


def test_flips_archive(tmp_path):
  parts = read_flip(write_flip(tmp_path / "splits.zip", SEQUENCES, LABELS, MASKS))
  found = {part: [(one.sequence, one.label.tolist()) for one in own] for part, own in parts.items()}
  assert found == {
    "train": [("ACD", [0, -1, 2])],
    "validation": [("EFG", [1, 1, 0])],
    "test": [("HIK", [-1, 2, 2])],
  }


@pytest.mark.parametrize(
  ("texts", "place"),
  [
    ((SEQUENCES, LABELS.replace("HEC", "HE"), MASKS), "sampled.fasta:3"),
    ((SEQUENCES, LABELS.replace("HEC", "HEX"), MASKS), "sampled.fasta:3"),
    ((SEQUENCES, LABELS, MASKS.replace("101", "121")), "sampled.fasta:3"),
    ((SEQUENCES, LABELS, MASKS.replace("101", "1011")), "sampled.fasta:3"),
    ((SEQUENCES, LABELS.replace("SET=train VALIDATION=False", "SET=TRAIN"), MASKS), "sampled.fasta:3"),
    ((SEQUENCES + ">d\nACD\n", LABELS, MASKS), "sequences.fasta:7"),
    ((SEQUENCES.replace("ACD", "A1D"), LABELS, MASKS), "sequences.fasta:2"),
    ((SEQUENCES, LABELS.replace("SET=test", "SET=train"), MASKS), "splits.zip"),
  ],
)  # fmt: skip
def test_mistakes_in_flips_archive(texts, place, tmp_path):
  with pytest.raises(UserError, match=place):
    read_flip(write_flip(tmp_path / "splits.zip", *texts))


@pytest.mark.parametrize("content", [None, b"PK no archive"])
def test_no_archive(content, tmp_path):
  path = tmp_path / "splits.zip"
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(UserError, match="FLIP"):
    read_flip(path)


def test_a_row_of_cb513(tmp_path):
  path = tmp_path / "CB513_HHblits.csv"
  path.write_text(HEADER + ROW)
  (one,) = read_cb513(path, tuple("HEC"), "dssp3")
  assert (one.sequence, one.label.tolist()) == ("ACX", [0, -1, -1])
  (one,) = read_cb513(path, tuple("GHIBETSC"), "dssp8")
  assert one.label.tolist() == [0, -1, -1]


@pytest.mark.parametrize(
  "row",
  ["A C,H E,G B,1.0 1.0\n", ROW.replace("H E C", "H E"), ROW.replace("1.0 0.0 1.0", "1.0 0.5 1.0"),
   ROW.replace("H E C", "H E Q"), ROW.replace("A C X", "A C 1"), ROW.replace("1.0 1.0 0.0", "1.0 1.0")],
)  # fmt: skip
def test_mistakes_in_cb513(row, tmp_path):
  path = tmp_path / "CB513_HHblits.csv"
  path.write_text(HEADER + ROW + row)
  with pytest.raises(UserError, match=f"{path}:3"):
    read_cb513(path, tuple("HEC"), "dssp3")


def test_equal_sequences_are_one_group_and_not_in_training(tmp_path):
  write_structures(tmp_path)
  eight = tasks.get("protein_ss8", tmp_path).read()["all"]
  groups = {}
  for one in eight:
    assert groups.setdefault(one.sequence, one.group) == one.group
  assert len({*groups.values()}) == len(groups) < len(eight)
  three = tasks.get("protein_ss3", tmp_path).read()
  known = {one.sequence for one in three["test_cb513"]}
  assert not known & {one.sequence for part in ("train", "validation") for one in three[part]}
  assert known & {one.sequence for one in three["test"]}


def counts(examples):
  scored = sum(int((one.label >= 0).sum()) for one in examples)
  return len(examples), scored, sum(len(one.sequence) for one in examples)


def test_the_real_files(shared):
  """As the sources count them; of FLIP two proteins are in CB513, one in train and one in validation."""
  data = shared / "data"
  folder = data / "secondary_structure"
  flip = read_flip(folder / "splits.zip")
  sizes = {part: len(own) for part, own in flip.items()}
  assert sizes == {"train": 9712, "validation": 1080, "test": 364}
  whole = [one for own in flip.values() for one in own]
  assert counts(whole) == (11156, 2845094 - 186876, 2845094)
  parts = tasks.get("protein_ss3", data).read()
  assert (len(parts["train"]), len(parts["validation"]), len(parts["test"])) == (9711, 1079, 364)
  assert counts(parts["test_cb513"]) == (511, 83427, 144011)
  eight = tasks.get("protein_ss8", data).read()["all"]
  assert counts(eight) == (511, 83427, 144011)
  assert len({one.group for one in eight}) == 432
  # G H I are H, and B E are E.
  to_three = np.array([0, 0, 0, 1, 1, 2, 2, 2, -1])
  for one, other in zip(eight, parts["test_cb513"], strict=True):
    np.testing.assert_array_equal(to_three[one.label], other.label)
