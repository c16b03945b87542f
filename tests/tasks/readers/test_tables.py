"""Tests that all table formats give the same rows, and that errors in hostile files name the file and the line."""

import csv
import errno
import gzip
import io
import json
import lzma
import os
import re

import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.readers.tables import read_table

PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
TEXTS = {
  ".csv": "name,label,sequence,part\none,yes,ACGT,train\ntwo,no,GGA,dev\n",
  ".tsv": "name\tlabel\tsequence\tpart\none\tyes\tACGT\ttrain\ntwo\tno\tGGA\tdev\n",
  ".jsonl": '{"sequence": "ACGT", "label": "yes", "part": "train"}\n'
  '{"label": "no", "sequence": "GGA", "part": "dev"}\n',
  ".fasta": ">one yes train\nACGT\n>two no dev\nGGA\n",
}
LINES = {".csv": [2, 3], ".tsv": [2, 3], ".jsonl": [1, 2], ".fasta": [1, 3]}


def rows(path, sequence="sequence", label="label", split=None):
  """Returns the line, sequence, label and split of each row."""
  result = []
  for row in read_table(path, sequence, label, split):
    if isinstance(row, UserError):
      raise row
    file, _, line = row.place.rpartition(":")
    assert file == str(path)
    result.append((int(line), row.sequence, row.label, row.split))
  return result


def written(folder, name, content):
  path = folder / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return path


def columns(*names):
  return [Column(name, f"of.{name}") for name in names]


class TestFormats:
  @pytest.mark.parametrize("packed", PACKERS)
  @pytest.mark.parametrize("suffix", TEXTS)
  @pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["", "bom"])
  @pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
  def test_the_same_rows(self, suffix, packed, bom, end, tmp_path):
    content = bom + TEXTS[suffix].replace("\n", end).encode()
    path = written(tmp_path, f"a.b{suffix}{packed}", PACKERS[packed](content))
    first, second = LINES[suffix]
    assert rows(path, split="part") == [
      (first, "ACGT", "yes", "train"),
      (second, "GGA", "no", "dev"),
    ]

  @pytest.mark.parametrize("suffix", TEXTS)
  def test_columns_that_were_not_asked_for_are_none(self, suffix, tmp_path):
    path = written(tmp_path, f"a{suffix}", TEXTS[suffix])
    assert [row[1:] for row in rows(path, label=None)] == [
      ("ACGT", None, None),
      ("GGA", None, None),
    ]

  @pytest.mark.parametrize("name", ["A.CSV", "a.Csv.GZ"])
  def test_suffixes_in_upper_case(self, name, tmp_path):
    content = PACKERS[".gz" if "GZ" in name else ""](TEXTS[".csv"].encode())
    assert len(rows(written(tmp_path, name, content))) == 2

  @pytest.mark.parametrize("suffix", [".fa", ".faa", ".fna", ".fa.gz"])
  def test_other_suffixes_of_fasta(self, suffix, tmp_path):
    pack = PACKERS[".gz" if suffix.endswith(".gz") else ""]
    path = written(tmp_path, f"a{suffix}", pack(TEXTS[".fasta"].encode()))
    assert [row[1] for row in rows(path, split="part")] == ["ACGT", "GGA"]

  def test_a_last_line_without_a_line_end_and_blank_lines(self, tmp_path):
    path = written(tmp_path, "a.csv", "\n\nsequence,label\n\nAC,1\n\nGT,2")
    assert rows(path) == [(5, "AC", "1", None), (7, "GT", "2", None)]
    path = written(tmp_path, "a.jsonl", '\n{"sequence": "AC", "label": 1}\n  \n')
    assert rows(path) == [(2, "AC", "1", None)]
    path = written(tmp_path, "a.fa", "\n>a 1\nAC\n\nGT\n\n>b 2\n\nTT")
    assert [(line, text.replace("\n", "")) for line, text, *_ in rows(path)] == [
      (2, "ACGT"),
      (7, "TT"),
    ]


class TestQuotes:
  CONTENT = (("a,b\tc", "x,y"), ('say "no"', "\tz"), ("one\ntwo\r\nthree", "w"), ("", "v"))

  @pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t")])
  def test_commas_tabs_quotes_and_line_ends(self, suffix, delimiter, tmp_path):
    """The csv module writes the file; its third row takes three lines."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter).writerows([("sequence", "label"), *self.CONTENT])
    path = written(tmp_path, f"a{suffix}", buffer.getvalue())
    assert [row[1:3] for row in rows(path)] == list(self.CONTENT)
    assert [row[0] for row in rows(path)] == [2, 3, 4, 7]

  def test_a_file_written_by_hand(self, tmp_path):
    path = written(tmp_path, "a.csv", '"sequence","label"\n"a ""b"" c","1"\n5" x,2\n')
    assert rows(path) == [(2, 'a "b" c', "1", None), (3, '5" x', "2", None)]

  def test_quotes_in_a_tsv_can_be_ordinary_characters(self, tmp_path):
    path = written(tmp_path, "a.tsv", 'sequence\tlabel\n"A," he said\t1\n"B"\t"2\n')
    assert [
      (row.sequence, row.label)
      for row in read_table(path, "sequence", "label", None, tsv_quotes=False)
    ] == [('"A," he said', "1"), ('"B"', '"2')]
    with pytest.raises(UserError, match=re.escape(f"{path}:2;")):
      rows(path)

  def test_unusual_line_separators_are_ordinary_characters(self, tmp_path):
    text = "a\u2028b\x85c\x0bd"
    path = written(tmp_path, "a.csv", f"sequence,label\n{text},1\n")
    assert rows(path) == [(2, text, "1", None)]
    path = written(tmp_path, "a.jsonl", '{"sequence": "a\u2028b", "label": "\u2028"}\n')
    assert rows(path) == [(1, "a\u2028b", "\u2028", None)]


class TestJson:
  @pytest.mark.parametrize(
    ("label", "text"),
    [
      ('"x"', "x"),
      ("1", "1"),
      ("-2.5", "-2.5"),
      ("true", "true"),
      ("false", "false"),
      ("1.0", "1"),
      ("1e3", "1000"),
      ("-0.0", "0"),
      ("NaN", "NaN"),
      ("-Infinity", "-Infinity"),
      ("12345678901234567890", "12345678901234567890"),
      ('"é\\u00e9"', "éé"),
      ("null", None),
    ],
  )
  def test_labels(self, label, text, tmp_path):
    path = written(tmp_path, "a.jsonl", f'{{"sequence": "A", "label": {label}}}\n')
    assert rows(path) == [(1, "A", text, None)]

  def test_sequences_are_not_converted(self, tmp_path):
    values = ["a", ["x", "y z"], [1, 2], None, {"a": 1}]
    lines = "".join(json.dumps({"sequence": value}) + "\n" for value in values)
    assert [row[1] for row in rows(written(tmp_path, "a.jsonl", lines), label=None)] == values


WIDER = {
  "a.csv": 'first,label,second,note\nA b,1,"C, d",x\n"E\nf",0,,y\n',
  "a.tsv": 'first\tlabel\tsecond\tnote\nA b\t1\tC, d\tx\n"E\nf"\t0\t\ty\n',
  "a.jsonl": '{"first": "A b", "label": 1, "second": "C, d", "note": "x"}\n'
  '{"note": "y", "second": "", "first": "E\\nf", "label": 0}\n',
}


class TestExtraColumns:
  @pytest.mark.parametrize("name", WIDER)
  def test_values_are_in_the_order_of_the_names(self, name, tmp_path):
    path = written(tmp_path, name, WIDER[name])
    found = read_table(
      path, "first", "label", None, extra_columns=columns("note", "second", "first")
    )
    assert [(row.sequence, row.label, row.extra) for row in found] == [
      ("A b", "1", ("x", "C, d", "A b")),
      ("E\nf", "0", ("y", "", "E\nf")),
    ]
    assert [row.extra for row in read_table(path, "first", "label", None)] == [(), ()]

  def test_json_values_are_not_converted(self, tmp_path):
    path = written(tmp_path, "a.jsonl", '{"first": "A", "second": [1, "b"], "third": null}\n')
    (row,) = read_table(path, "first", None, None, extra_columns=columns("second", "third"))
    assert row.extra == ([1, "b"], None)

  @pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
  def test_a_missing_column_is_an_error_of_the_file(self, name, tmp_path):
    path = written(tmp_path, name, WIDER[name])
    with pytest.raises(UserError, match=f"'third'.*{path}:1;.*--config.of.third,"):
      read_table(path, "first", None, None, extra_columns=columns("second", "third"))

  def test_a_missing_key_is_an_error_of_its_json_row(self, tmp_path):
    lines = '{"first": "A", "second": "B"}\n{"first": "A"}\n'
    path = written(tmp_path, "a.jsonl", lines)
    row, error = read_table(path, "first", None, None, extra_columns=columns("second"))
    assert row.extra == ("B",)
    assert isinstance(error, UserError)
    assert "'second'" in str(error)
    assert f"{path}:2;" in str(error)
    assert "--config.of.second," in str(error)

  def test_fasta_has_no_extra_columns(self, tmp_path):
    path = written(tmp_path, "a.fa", ">a 1\nAC\n")
    with pytest.raises(UserError, match=f"'second'.*{path};.*--config.of.second,"):
      read_table(path, "first", None, None, extra_columns=columns("second"))


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("length", [50_000, 200_000])
def test_long_sequences(suffix, length, tmp_path):
  """By default the csv module refuses fields of more than 131,072 characters."""
  sequence = "ACGT" * (length // 4)
  path = written(
    tmp_path, f"a{suffix}.gz", gzip.compress(TEXTS[suffix].replace("ACGT", sequence).encode())
  )
  assert [row[1] for row in rows(path, split="part")] == [sequence, "GGA"]


WHOLE = TEXTS[".csv"].encode() * 500
BAD_DEFLATE = bytearray(gzip.compress(bytes(range(256)) * 40, mtime=0))
BAD_DEFLATE[10:14] = b"\xff" * 4  # no such block type


@pytest.mark.parametrize(
  ("name", "content", "line", "facts"),
  [
    ("a.csv", b"sequence,label\nAC,1\n\xffC,2\n", ":3", ["UTF-8"]),
    ("a.jsonl", b'{"sequence": "\xe9", "label": 1}\n', ":1", ["UTF-8"]),
    ("a.fa", b">a 1\nAC\n>b 2\nA\xc3", ":4", ["UTF-8"]),
    ("a.csv", TEXTS[".csv"].encode("utf-16"), ":1", ["UTF-8"]),
    ("a.csv", gzip.compress(WHOLE, mtime=0), ":1", ["UTF-8", ".gz"]),
    ("a.csv", b"sequence,label\nAC,1\nAC,1,2\n", ":3", ["3", "2"]),
    ("a.csv", b'sequence,label\n"A\nC",1\nAC\n', ":4", ["1", "2"]),
    ("a.csv", b"sequence,label,label\nAC,1,2\n", ":1", ["'label'"]),
    ("a.csv", b"\nSequence,label\nAC,1\n", ":2", ["'sequence'", "'Sequence', 'label'", "task.sequence_column"]),
    ("a.tsv", b"sequence  label\nAC,1\n", ":1", ["'sequence'", "'sequence  label'"]),
    ("a.csv", b"sequence,class\nAC,1\n", ":1", ["'label'", "'sequence', 'class'", "task.label_column"]),
    ("a.csv", b'sequence,label\nAC,1\n"A"C,1\n', ":3", ["',' expected after '\"'"]),
    ("a.csv", b'sequence,label\nAC,1\n"AC,1\nAC,1\n', ":3", ["unexpected end"]),
    ("a.csv", b"", "", ["task.path"]),
    ("a.csv", b"\n\n", "", ["task.path"]),
    ("a.csv", b"sequence,label\n", "", ["task.path"]),
    ("a.csv.gz", b"", "", ["task.path"]),
    ("a.jsonl", b"", "", ["task.path"]),
    ("a.jsonl", b'{"sequence": "A", "label": 1}\n["A", 1]\n', ":2", ["JSON"]),
    ("a.jsonl", b'{"sequence": "A", "label": 1}\n{"sequence": "A", \n', ":2", ["JSON", "property name"]),
    ("a.jsonl", b"{" * 5 + b"\n", ":1", ["JSON", "property name"]),
    ("a.jsonl", b"[" * 100_000 + b"\n", ":1", ["JSON", "recursion"]),
    ("a.jsonl", b'{"sequence": ' + b"1" * 5000 + b', "label": 1}\n', ":1", ["JSON", "4300"]),
    ("a.jsonl", b'{"sequence": "a\\ud83d", "label": 1}\n', ":1", ["JSON", "\\ud83d"]),
    ("a.jsonl", b'\n{"sequence": "A", "class": 1}\n', ":2", ["'label'", "'sequence', 'class'", "task.label_column"]),
    ("a.jsonl", b'{"sequence": "A", "label": [1]}\n', ":1", ["'[1]'"]),
    ("a.jsonl", b'{"sequence": "A", "label": 1, "label": 2}\n', ":1", ["JSON", "'label'"]),
    ("a.fa", b"ACGT\n>a 1\nAC\n", ":1", ["'ACGT'"]),
    ("a.fa", b">a 1\nAC\n>b\nGT\n", ":3", ["1", "2", "`>name label`"]),
    ("a.fa", b"\n", "", ["task.path"]),
    ("a.csv.gz", gzip.compress(WHOLE, mtime=0)[:-9], "", [".gz", "end-of-stream"]),
    ("a.csv.gz", bytes(BAD_DEFLATE), "", [".gz", "Error -3"]),
    ("a.csv.gz", gzip.compress(WHOLE, mtime=0)[:-8] + b"\0" * 8, "", [".gz", "CRC"]),
    ("a.csv.gz", WHOLE, "", [".gz", "b'na'"]),
    ("a.csv.xz", lzma.compress(WHOLE)[:-20], "", [".xz", "end-of-stream"]),
    ("a.csv.xz", WHOLE, "", [".xz", "Input format"]),
    ("a.csv.xz", b"", "", [".xz", "end-of-stream"]),
    ("a.txt", b"sequence,label\nAC,1\n", "", ["'a.txt'", ".csv, .tsv, .jsonl, .fa, .faa, .fasta, .fna", "task.path"]),
    ("data", b"sequence,label\nAC,1\n", "", ["'data'", ".csv, .tsv", "task.path"]),
    ("a.gz", gzip.compress(WHOLE, mtime=0), "", ["'a.gz'", ".csv, .tsv", "task.path"]),
  ],
)  # fmt: skip
def test_errors_of_hostile_files(name, content, line, facts, tmp_path):
  path = written(tmp_path, name, content)
  with pytest.raises(UserError) as raised:
    rows(path)
  what, place, remedy = str(raised.value).partition(f", {path}{line}; ")
  assert place
  for fact in facts:
    assert fact in what + remedy
  assert "\n" not in what + remedy
  assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
  ("columns", "needed", "form"),
  [
    ({}, 2, ">name label"),
    ({"label": None, "split": "part"}, 2, ">name split"),
    ({"split": "part"}, 3, ">name label split"),
  ],
)
def test_a_fasta_header_needs_a_word_for_each_column(columns, needed, form, tmp_path):
  """Fewer words are an error, and more words too, because the label may then be more than one word."""
  for number in (needed - 1, needed + 1):
    good, bad = (" ".join(["b", "1", "train", "x"][:n]) for n in (needed, number))
    path = written(tmp_path, "a.fa", f">{good}\nAC\n>{bad}\nGT\n")
    with pytest.raises(UserError, match=f"{number} .* {needed}, {path}:3; .*`{form}`"):
      rows(path, **columns)


def test_a_fasta_header_without_label_and_split_can_be_anything(tmp_path):
  path = written(tmp_path, "a.fa", ">sp|P1|X_Y Putative cell wall OS=Z\nAC\n>\nGT\n")
  found = read_table(path, "sequence", None, None, extra_columns=columns("name", "header"))
  assert [(row.sequence, row.extra) for row in found] == [
    ("AC", ("sp|P1|X_Y", "sp|P1|X_Y Putative cell wall OS=Z")),
    ("GT", ("", "")),
  ]


def test_a_missing_file_and_a_folder(tmp_path):
  (tmp_path / "b.csv").mkdir()
  for name, reason in (("a.csv", errno.ENOENT), ("b.csv", errno.EISDIR)):
    with pytest.raises(UserError, match=f"{os.strerror(reason)}, {tmp_path}/{name}; .*task.path"):
      rows(tmp_path / name)
