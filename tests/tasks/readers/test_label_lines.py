"""Tests FASTA for the prediction of labels of positions: sequences alone, because labels would be read as sequences."""

import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.readers.tables import read_table
from tests.tasks.own_tables import written


def sequences(path):
  return [row.sequence for row in read_table(path, "sequence", None, None, label_form="positions")]


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    (">a\nACDE\n>b\nAC\n", ["ACDE", "AC"]),
    (">a\nACDE\nAC\n>b\nACDE\nACDE\nA\n", ["ACDE\nAC", "ACDE\nACDE\nA"]),
    (">a x\nACDE\n>b\nAC\n>b\nDD\n", ["ACDE", "AC", "DD"]),
  ],
)
def test_sequences_alone(content, expected, tmp_path):
  assert sequences(written(tmp_path, content, "a.fa")) == expected


@pytest.mark.parametrize(
  "content",
  [
    ">a\nACDE\nHHCC\n>b\nAC\nHC\n",
    ">a\nACDE\nH H C C\n>b\nAC\n",
    ">a\nACDE\n>a\nHHCC\n>b\nAC\n>b\nHC\n",
  ],
)
def test_what_may_have_labels_is_refused(content, tmp_path):
  path = written(tmp_path, content, "a.fa")
  with pytest.raises(UserError, match=f"{path}:1"):
    sequences(path)
