"""Tests where a FASTA header has its label and split, and lines that are no symbols."""

import pytest

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import parse
from discipline_jax.tasks.readers.fasta import HeaderForm, read_header
from discipline_jax.tasks.readers.tables import read_table

UNIPROT = "sp|P12345|WALL_X Putative cell wall protein OS=Homo sapiens OX=9606 GN=W"


@pytest.mark.parametrize(
  ("header", "wanted", "separator", "values"),
  [
    ("a b", ["label"], None, ["b"]),
    ("a  b\ttrain", ["label", "split"], None, ["b", "train"]),
    ("a test", ["split"], None, ["test"]),
    ("a Cell  wall", ["label"], " ", ["Cell wall"]),
    ("a Nucleus", ["label"], " ", ["Nucleus"]),
    ("a Cell wall train", ["label", "split"], " ", ["Cell wall", "train"]),
    ("a Nucleus train", ["label", "split"], " ", ["Nucleus", "train"]),
    ("a b|Cell wall", ["label"], "|", ["Cell wall"]),
    ("a b | Cell wall | train", ["label", "split"], "|", ["Cell wall", "train"]),
    ("a b\tCell wall", ["label"], "\t", ["Cell wall"]),
    ("a b\tCell wall", ["label"], r"\t", ["Cell wall"]),
    ("a b :: Cell wall", ["label"], "::", ["Cell wall"]),
  ],
)
def test_fields(header, wanted, separator, values):
  found = read_header(header, wanted, HeaderForm(separator), "a.fa:3")
  assert found == dict(zip(wanted, values, strict=True))


@pytest.mark.parametrize(
  ("pattern", "wanted", "values"),
  [
    (r"OX=(?P<label>\d+)", ["label"], ["9606"]),
    (r"OX=(\d+)", ["label"], ["9606"]),
    (r"^\S+ (?P<label>.+?) OS=.*GN=(?P<split>\w+)", ["label", "split"], ["Putative cell wall protein", "W"]),
    (r"OS=(?P<label>.+?) OX", ["label"], ["Homo sapiens"]),
  ],
)  # fmt: skip
def test_a_pattern(pattern, wanted, values):
  found = read_header(UNIPROT, wanted, HeaderForm(None, pattern), "a.fa:3")
  assert found == dict(zip(wanted, values, strict=True))


@pytest.mark.parametrize(
  ("header", "wanted", "form", "facts"),
  [
    ("a", ["label"], HeaderForm(), ["1 ", "2"]),
    ("a Cell wall", ["label"], HeaderForm(), ["3 ", "2", "label_separator=' '", "label_pattern"]),
    (UNIPROT, ["label"], HeaderForm(), ["9 ", "2", "label_pattern"]),
    ("a b\tCell wall", ["label"], HeaderForm(), ["label_separator='\\t'"]),
    ("a|Cell wall|dev", ["label", "split"], HeaderForm(), ["2 ", "3"]),
    ("a|Cell wall|dev new", ["label", "split"], HeaderForm("|", "("), ["label_pattern", "'('"]),
    ("a b c", ["split"], HeaderForm(), ["3 ", "2", "label_pattern"]),
    ("a", ["label"], HeaderForm(" "), ["1 ", "2"]),
    ("a b", ["label", "split"], HeaderForm(" "), ["2 ", "3"]),
    ("a|b|c", ["label"], HeaderForm("|"), ["3 ", "'|'", "2"]),
    ("a b", ["label"], HeaderForm("|"), ["1 ", "'|'", "2"]),
    ("a b", ["label"], HeaderForm(None, r"=(\d+)"), ["'a b'", "label_pattern"]),
    ("a b", ["label", "split"], HeaderForm(None, r"(\w)"), ["label_pattern", "label"]),
    ("a b", ["label", "split"], HeaderForm(None, r"(?P<label>\w)"), ["label_pattern", "split"]),
  ],
)  # fmt: skip
def test_a_header_of_another_form_is_an_error(header, wanted, form, facts):
  with pytest.raises(UserError) as raised:
    read_header(header, wanted, form, "a.fa:3")
  assert "\n" not in str(raised.value)
  if form.pattern is None or "does not match" in str(raised.value):
    assert "a.fa:3" in str(raised.value)
  for fact in facts:
    assert fact in str(raised.value)


@pytest.mark.parametrize(
  ("header", "wanted"),
  [
    ("a Cell wall", ["label"]),
    ("a b\tCell wall", ["label"]),
    ("a b|Cell wall|dev new", ["label", "split"]),
    ("a b;Cell wall", ["label"]),
    ("P1,Cell wall,dev", ["label", "split"]),
  ],
)
def test_the_separator_that_the_error_names_reads_the_header(header, wanted):
  with pytest.raises(UserError) as raised:
    read_header(header, wanted, HeaderForm(), "a.fa:3")
  separator = str(raised.value).partition("label_separator='")[2].partition("'")[0]
  assert read_header(header, wanted, HeaderForm(separator), "a.fa:3")["label"] == "Cell wall"


def test_comments_and_empty_lines_are_no_symbols(tmp_path):
  lines = ["; made by hand", ">a x", "AC", "; more", "", "GT", ">b y", "TT"]
  records = list(parse(lines, tmp_path / "a.fa"))
  assert ["".join(record.lines) for record in records] == ["ACGT", "TT"]
  assert [record.line for record in records] == [2, 7]


@pytest.mark.parametrize(
  ("name", "form", "fact"),
  [
    ("a.csv", HeaderForm("|"), "label_separator"),
    ("a.jsonl", HeaderForm(None, "(x)"), "label_pattern"),
    ("a.fa", HeaderForm(""), "label_separator"),
    ("a.fa", HeaderForm(None, "("), "label_pattern"),
  ],
)
def test_a_form_that_cannot_be_used_is_an_error_of_the_file(name, form, fact, tmp_path):
  """The error concerns the whole file, and not single rows, which could be left out."""
  path = tmp_path / name
  path.write_text(">a x\nAC\n" if name == "a.fa" else "sequence,label\nAC,x\n")
  with pytest.raises(UserError, match=fact):
    read_table(path, "sequence", "label", None, header_form=form)
