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


@pytest.mark.parametrize("suffix", ["", "_ss"])
@pytest.mark.parametrize("fold", [wrapped, "{}\n".format])
@pytest.mark.parametrize("missing", [0, 4, 11])
@pytest.mark.parametrize("part", [0, 1])
def test_a_missing_record_shifts_no_other(part, missing, fold, suffix, tmp_path):
  rows = samples()
  records = as_pairs(rows, suffix, fold).split(">")[1:]
  del records[2 * missing + part]
  path = written(tmp_path, ">" + ">".join(records), "a.fa")
  line = "".join(records[: 2 * missing]).count("\n") + 1
  expected = [row[1:] for row in rows]
  expected[missing] = str(line)
  assert found(path) == expected
  with pytest.raises(UserError, match=f"{path}:{line};"):
    read(path, kind="tagging")
  assert len(read(path, kind="tagging", skip_invalid=True).read()["all"]) == 11


def names(form, number):
  """Returns the names of the records of some samples, which say `{}` is a sequence and its labels in some way."""
  return [[name.format(i, 2 * i, 2 * i + 1) for name in form.split()] for i in range(number)]


def with_names(form, rows):
  both = zip(names(form, len(rows)), rows, strict=True)
  return [
    f">{name}\n{text}\n" for own, row in both for name, text in zip(own, row[1:], strict=True)
  ]


@pytest.mark.parametrize(
  "form", ["{0}ABC:A:sequence {0}ABC:A:secstr", "seq_{0} ss_{0}", "p{0}-s p{0}-ss", "{0}.1 {0}.2"]
)
@pytest.mark.parametrize("missing", [0, 1, 8, 9, 22, 23])
def test_a_missing_record_among_names_with_a_constant_difference(form, missing, tmp_path):
  """The one of its pair that is there is left out, and no other."""
  rows = samples()
  records = with_names(form, rows)
  path = written(tmp_path, "".join(records[:missing] + records[missing + 1 :]), "a.fa")
  del rows[missing // 2]
  assert [one for one in found(path) if isinstance(one, tuple)] == [row[1:] for row in rows]
  assert len(read(path, kind="tagging", skip_invalid=True).read()["all"]) == 11


@pytest.mark.parametrize("number", [2, 3, 12])
@pytest.mark.parametrize(
  "form", ["{1} {2}", "s{1} s{2}", "seq labels", "a_seq a_ss", "p p", "x{0} {0}y"]
)
@pytest.mark.parametrize("missing", ["none", "first", "inner", "last"])
def test_names_that_say_nothing_go_with_no_missing_record(missing, form, number, tmp_path):
  """Numbers, or the same names for all samples; all sequences are of one length, so that a shift shows in nothing."""
  rows = samples(number)
  records = with_names(form, rows)
  if missing != "none":
    del records[{"first": 0, "inner": 3, "last": -1}[missing]]
  path = written(tmp_path, "".join(records), "a.fa")
  with pytest.raises(UserError, match=f"task.skip_invalid = True.*{path}:1;"):
    read(path, kind="tagging", skip_invalid=True)
  if missing == "none":
    assert found(path) == [row[1:] for row in rows]
  else:
    with pytest.raises(UserError, match=f"{path}:"):
      read(path, kind="tagging")


def test_the_remedy_for_a_record_that_is_missing_somewhere(tmp_path):
  rows = samples()
  path = written(tmp_path, "".join(with_names("{1} {2}", rows)[:-3]), "a.fa")
  with pytest.raises(UserError, match=f"21 records, .*{path}:41; add the record that is missing"):
    read(path, kind="tagging")
  path.write_text("".join(with_names("{0} {0}", rows)[:-3]))
  with pytest.raises(UserError, match=f"labels of '10' follows it, {path}:41;"):
    read(path, kind="tagging")
  assert len(read(path, kind="tagging", skip_invalid=True).read()["all"]) == 10


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
