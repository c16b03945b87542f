"""Tests which form FASTA with labels of positions has, if records are wrapped, missing or of one name."""

import random

import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.readers.tables import each_row, read_table
from tests.tasks.own_tables import read, written

AMINO = "ACDEFGHIKLMNPQRSTVWY"


def drawn(letters, length, seed):
  return "".join(random.Random(f"{letters}{seed}").choices(letters, k=length))


def samples(number=12, length=12, labels="HEC"):
  return [(f"p{i}", drawn(AMINO, length, i), drawn(labels, length, -i - 1)) for i in range(number)]


def wrapped(text):
  half = len(text) // 2
  return f"{text[:half]}\n{text[half:]}\n"


def as_pairs(rows, suffix="", fold=wrapped):
  return "".join(f">{n}\n{fold(one)}>{n}{suffix}\n{fold(tags)}" for n, one, tags in rows)


def as_three_lines(rows, names=None):
  names = [name for name, *_ in rows] if names is None else names
  return "".join(
    f">{name}\n{one}\n{tags}\n" for name, (_, one, tags) in zip(names, rows, strict=True)
  )


def found(path):
  """Returns the sequence and the label of each sample, and the place of each that cannot be read."""
  rows = read_table(path, "sequence", "label", None, label_form="positions")
  return [
    str(row).partition(";")[0].rpartition(":")[2]
    if isinstance(row, UserError)
    else (row.sequence.replace("\n", ""), row.label.replace("\n", ""))
    for row in rows
  ]


@pytest.mark.parametrize("labels", ["HEC", "GHITEBSC", "01"])
@pytest.mark.parametrize("suffix", ["", "_ss"])
def test_pairs_of_records_of_two_equal_lines(suffix, labels, tmp_path):
  """Each line of such a record is as long as the other, as a sequence and its labels are."""
  rows = samples(labels=labels)
  path = written(tmp_path, as_pairs(rows, suffix), "a.fa")
  assert found(path) == [row[1:] for row in rows]
  assert set(read(path, kind="tagging").answer.labels) == set(labels)


@pytest.mark.parametrize("names", [None, ["protein"] * 12, ["p", "p", *"cdefghijkl"]])
def test_three_lines_of_sequences_of_one_length(names, tmp_path):
  """Two records after each other are as long as each other, as a sequence and its labels are."""
  rows = samples()
  path = written(tmp_path, as_three_lines(rows, names), "a.fa")
  assert found(path) == [row[1:] for row in rows]


@pytest.mark.parametrize("form", [as_pairs, as_three_lines])
def test_what_may_be_both_is_refused_and_the_remedy_helps(form, tmp_path):
  """The labels have the letters of the sequences, so they say nothing."""
  rows = samples(labels=AMINO)
  path = written(tmp_path, form(rows), "a.fa")
  for skip_invalid in (False, True):
    with pytest.raises(UserError, match=f"{path}:1;"):
      read(path, kind="tagging", skip_invalid=skip_invalid)
  path.write_text(as_pairs(rows, fold="{}\n".format))
  assert found(path) == [row[1:] for row in rows]


@pytest.mark.parametrize("fold", [wrapped, "{}\n".format])
@pytest.mark.parametrize("missing", [0, 4, 11])
@pytest.mark.parametrize("part", [0, 1])
def test_a_missing_record_shifts_no_other(part, missing, fold, tmp_path):
  rows = samples()
  records = as_pairs(rows, fold=fold).split(">")[1:]
  del records[2 * missing + part]
  path = written(tmp_path, ">" + ">".join(records), "a.fa")
  line = "".join(records[: 2 * missing]).count("\n") + 1
  expected = [row[1:] for row in rows]
  expected[missing] = str(line)
  assert found(path) == expected
  with pytest.raises(UserError, match=f"{path}:{line};"):
    read(path, kind="tagging")
  assert len(read(path, kind="tagging", skip_invalid=True).read()["all"]) == 11


def test_numbers_in_pairs_and_three_lines_of_one_length(tmp_path):
  rows = [
    (name, one, " ".join(f"{ord(a) / 7:.3f}" for a in one)) for name, one, _ in samples(length=6)
  ]
  assert found(written(tmp_path, as_three_lines(rows), "a.fa")) == [row[1:] for row in rows]
  assert found(written(tmp_path, as_pairs(rows, fold="{}\n".format), "b.fa")) == [
    row[1:] for row in rows
  ]


@pytest.mark.parametrize("missing", [None, 5])
def test_a_file_to_predict_with_labels_is_refused_and_the_remedy_helps(missing, tmp_path):
  records = as_pairs(samples()).split(">")[1:]
  if missing is not None:
    del records[missing]
  path = written(tmp_path, ">" + ">".join(records), "a.fa")
  columns = [None] * 3
  with pytest.raises(UserError, match=f"{path}:1;"):
    list(each_row(path, columns, label_form="positions"))
  path.write_text("".join(f">{name}\n{one}\n" for name, one, _ in samples()))
  assert len(list(each_row(path, columns, label_form="positions"))) == 12
