"""Tests tables with delimiters as spreadsheets and other programs write them."""

import csv
import io

import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.readers.tables import read_table

ROWS = [("id", "sequence", "label"), ("s0", "ACG", "no, not"), ("s1", "T;T", "a 'b' \"c\"")]


def rows(folder, content, name="a.csv", **columns):
  """Returns the line, sequence and label of each row."""
  path = folder / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  found = read_table(path, "sequence", "label", columns.get("split"))
  for row in found:
    if isinstance(row, UserError):
      raise row
  return [(int(row.place.rpartition(":")[2]), row.sequence, row.label) for row in found]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("first", ["", "sep={}\r\n", '"sep={}"\r\n'])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_the_delimiter_is_found_from_the_header(name, delimiter, first, bom, tmp_path):
  buffer = io.StringIO(newline="")
  csv.writer(buffer, delimiter=delimiter).writerows(ROWS)
  found = rows(tmp_path, bom + first.format(delimiter) + buffer.getvalue(), name)
  line = 3 if first else 2
  assert found == [(line, "ACG", "no, not"), (line + 1, "T;T", "a 'b' \"c\"")]


def test_another_delimiter_that_the_first_line_names(tmp_path):
  assert rows(tmp_path, "sep=^\nsequence^label\nA^1\n") == [(3, "A", "1")]


def test_the_delimiter_of_the_name_wins_where_both_fit(tmp_path):
  assert rows(tmp_path, "sequence,label,x;sequence;label;y\nA,1,C\n")[0][1] == "A"


def test_single_quotes(tmp_path):
  content = "'sequence','label'\n'A,C','x'\n"
  assert rows(tmp_path, content) == [(2, "A,C", "x")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("a.csv", 'sequence,label\nAC,1\n\n"G\nT",0'),
    ("a.tsv", 'sequence\tlabel\nAC\t1\n\n"G\nT"\t0\n'),
    ("a.jsonl", '\n{"sequence": "AC", "label": 1}\n\n{"sequence": "G\\nT", "label": 0}\n'),
    ("a.fa", "\n>a 1\nAC\n>b 0\nG\nT"),
  ],
)
def test_line_ends(name, content, end, tmp_path):
  found = rows(tmp_path, content.replace("\n", end), name)
  assert [(line, text.replace(end, "\n"), label) for line, text, label in found] == [
    (2, "AC", "1"),
    (4, "G\nT", "0"),
  ]


def test_mixed_line_ends(tmp_path):
  content = "sequence,label\rA,1\nC,2\r\nG,3\r\rT,4\n"
  assert rows(tmp_path, content) == [(2, "A", "1"), (3, "C", "2"), (4, "G", "3"), (6, "T", "4")]


def test_the_line_of_an_error_counts_carriage_returns(tmp_path):
  with pytest.raises(UserError, match="a.csv:3;"):
    rows(tmp_path, b"sequence,label\rA,1\r\xff,2\r")


@pytest.mark.parametrize(
  "content",
  [
    "sequence,label,,\nA,1,,\nC,2\n,,,\nG,3,,,,\n,,,\n",  # empty columns and rows of a spreadsheet
    ",,\nsequence,label,\nA,1,\n\nC,2,\n\nG,3,\n",
    "id, sequence, label\n0, A, 1\n1, C, 2\n\n2, G, 3\n",
    ' id , "sequence" , "label"\n 0 , "A", "1"\n1,C,2\n\n\n2,G,3\n'.replace('" ,', '",'),
    ",sequence,label\n0,A,1\n1,C,2\n2,G,3\n",  # an index without a name
    "sequence\u200b,\xa0label\nA,1\nC,2\nG,3\n",
  ],
)
def test_empty_columns_and_blanks(content, tmp_path):
  found = [row[1:] for row in rows(tmp_path, content)]
  assert [(text.strip(), label.strip()) for text, label in found] == [
    ("A", "1"),
    ("C", "2"),
    ("G", "3"),
  ]


@pytest.mark.parametrize(
  ("content", "line", "facts"),
  [
    ("sequence,label,\nA,1,x,y\n", 2, ["4", "3"]),
    ("sequence,label,note\nA,1\n", 2, ["2", "3"]),
    ("sequence,label\nA,1\n\n sequence, label\nC,0\n", 4, ["header"]),  # two tables in one file
    ("sequence;label\nA;1;2\n", 2, ["3", "2", "';'"]),
    ("sequence,label\nA,3,5\n", 2, ["3", "2"]),
    ("ACGT,1\nTTGA,0\n", 1, ["'sequence'", "'ACGT'", "first line"]),  # no header
    ("sequence;class\nA;1\n", 1, ["'label'", "'sequence', 'class'", "task.label_column"]),
    ("seq|label\nA|1\n", 1, ["'sequence'", "'seq', 'label'", "task.sequence_column"]),
    ("sequence,label, label\nA,1,2\n", 1, ["'label'"]),
    ("sequence\tlabel\n".encode("utf-16-le"), 1, ["UTF-8"]),
    ("sequence\tlabel\n".encode("utf-16"), 1, ["UTF-16", "UTF-8"]),
    (b"PK\x03\x04\x14\0", 1, [".xlsx", "UTF-8"]),
    (b"\xd0\xcf\x11\xe0\xa1", 1, ["Excel", "UTF-8"]),
  ],
)  # fmt: skip
def test_mistakes_are_one_line_that_is_true(content, line, facts, tmp_path):
  with pytest.raises(UserError) as raised:
    rows(tmp_path, content)
  message = str(raised.value)
  assert f"{tmp_path}/a.csv:{line}; " in message
  assert "\n" not in message
  for fact in facts:
    assert fact in message
