"""Tables of sequences: the same rows from every format, and a line that says what is wrong with any other file."""

import csv
import gzip
import io
import json
import lzma
import re

import pytest

from discipline_jax.errors import UserError
from discipline_jax.tasks.tables import read_table

PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
TEXTS = {
  ".csv": "name,label,sequence,part\none,yes,ACGT,train\ntwo,no,GGA,dev\n",
  ".tsv": "name\tlabel\tsequence\tpart\none\tyes\tACGT\ttrain\ntwo\tno\tGGA\tdev\n",
  ".jsonl": '{"sequence": "ACGT", "label": "yes", "part": "train"}\n'
  '{"label": "no", "sequence": "GGA", "part": "dev"}\n',
  ".fasta": ">one yes train\nACGT\n>two no dev more words\nGGA\n",
}
LINES = {".csv": [2, 3], ".tsv": [2, 3], ".jsonl": [1, 2], ".fasta": [1, 3]}


def rows(path, sequence="sequence", label="label", split=None):
  """Line, sequence, label and split of each row."""
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
  def test_columns_that_are_not_wanted_are_none(self, suffix, tmp_path):
    path = written(tmp_path, f"a{suffix}", TEXTS[suffix])
    assert [row[1:] for row in rows(path, label=None)] == [
      ("ACGT", None, None),
      ("GGA", None, None),
    ]

  @pytest.mark.parametrize("name", ["A.CSV", "a.Csv.GZ"])
  def test_suffixes_in_capitals(self, name, tmp_path):
    content = PACKERS[".gz" if "GZ" in name else ""](TEXTS[".csv"].encode())
    assert len(rows(written(tmp_path, name, content))) == 2

  @pytest.mark.parametrize("suffix", [".fa", ".faa", ".fna", ".fa.gz"])
  def test_the_other_names_of_fasta(self, suffix, tmp_path):
    pack = PACKERS[".gz" if suffix.endswith(".gz") else ""]
    path = written(tmp_path, f"a{suffix}", pack(TEXTS[".fasta"].encode()))
    assert [row[1] for row in rows(path)] == ["ACGT", "GGA"]

  def test_a_last_line_without_an_end_and_blank_lines(self, tmp_path):
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
  CONTENT = (("a,b\tc", "x,y"), ('say "no"', "\tz"), ("one\ntwo\r\nthree", "w"), ("", ""))

  @pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t")])
  def test_commas_tabs_quotes_and_line_ends(self, suffix, delimiter, tmp_path):
    """As csv writes them; the third row stands on three lines."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter).writerows([("sequence", "label"), *self.CONTENT])
    path = written(tmp_path, f"a{suffix}", buffer.getvalue())
    assert [row[1:3] for row in rows(path)] == list(self.CONTENT)
    assert [row[0] for row in rows(path)] == [2, 3, 4, 7]

  def test_by_hand(self, tmp_path):
    path = written(tmp_path, "a.csv", '"sequence","label"\n"a ""b"" c","1"\n5" x,2\n')
    assert rows(path) == [(2, 'a "b" c', "1", None), (3, '5" x', "2", None)]

  def test_a_tsv_in_which_quotes_are_characters(self, tmp_path):
    path = written(tmp_path, "a.tsv", 'sequence\tlabel\n"A," he said\t1\n"B"\t"2\n')
    assert [
      (row.sequence, row.label)
      for row in read_table(path, "sequence", "label", None, tsv_quotes=False)
    ] == [('"A," he said', "1"), ('"B"', '"2')]
    message = f"not a CSV line ('\\t' expected after '\"'), {path}:2; correct the line"
    with pytest.raises(UserError, match=re.escape(message)):
      rows(path)

  def test_characters_that_other_readers_take_for_line_ends(self, tmp_path):
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

  def test_sequences_are_left_as_they_are(self, tmp_path):
    values = ["a", ["x", "y z"], [1, 2], None, {"a": 1}]
    lines = "".join(json.dumps({"sequence": value}) + "\n" for value in values)
    assert [row[1] for row in rows(written(tmp_path, "a.jsonl", lines), label=None)] == values


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("length", [50_000, 200_000])
def test_long_sequences(suffix, length, tmp_path):
  """csv's own limit is 131,072 characters."""
  sequence = "ACGT" * (length // 4)
  path = written(
    tmp_path, f"a{suffix}.gz", gzip.compress(TEXTS[suffix].replace("ACGT", sequence).encode())
  )
  assert [row[1] for row in rows(path)] == [sequence, "GGA"]


WHOLE = TEXTS[".csv"].encode() * 500
BAD_DEFLATE = bytearray(gzip.compress(bytes(range(256)) * 40))
BAD_DEFLATE[10:14] = b"\xff" * 4  # no such block type


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a.csv", b"sequence,label\nAC,1\n\xffC,2\n", "not UTF-8 text (invalid start byte), {}:3; save it as UTF-8"),
    ("a.jsonl", b'{"sequence": "\xe9", "label": 1}\n', "not UTF-8 text (invalid continuation byte), {}:1; "),
    ("a.fa", b">a 1\nAC\n>b 2\nA\xc3", "not UTF-8 text (unexpected end of data), {}:4; "),
    ("a.csv", TEXTS[".csv"].encode("utf-16"), "not UTF-8 text (invalid start byte), {}:1; "),
    ("a.csv", gzip.compress(WHOLE), "not UTF-8 text (invalid start byte), {}:1; save it as UTF-8, and name a packed"),
    ("a.csv", b"sequence,label\nAC,1\nAC,1,2\n", "3 fields where the header has 2, {}:3; correct the line"),
    ("a.csv", b'sequence,label\n"A\nC",1\nAC\n', "1 fields where the header has 2, {}:4; correct the line"),
    ("a.csv", b"sequence,label,label\nAC,1,2\n", "two columns 'label', {}:1; rename one"),
    ("a.csv", b"\nSequence,label\nAC,1\n", "no column 'sequence' but Sequence, label, {}:2; set task.sequence_column"),
    ("a.tsv", b"sequence,label\nAC,1\n", "no column 'sequence' but sequence,label, {}:1; "),
    ("a.csv", b"sequence,class\nAC,1\n", "no column 'label' but sequence, class, {}:1; set task.sequence_column, task"),
    ("a.csv", b'sequence,label\nAC,1\n"A"C,1\n', "not a CSV line (',' expected after '\"'), {}:3; correct the line"),
    ("a.csv", b'sequence,label\nAC,1\n"AC,1\nAC,1\n', "not a CSV line (unexpected end of data), {}:3; correct"),
    ("a.csv", b"sequence,label\rAC,1\rAC,1\r", "not a CSV line (new-line character seen in unquoted field"),
    ("a.csv", b"", "no row, {}; give a CSV, TSV, JSONL or FASTA file as task.path"),
    ("a.csv", b"\n\n", "no row, {}; give a CSV"),
    ("a.csv", b"sequence,label\n", "no row, {}; give a CSV"),
    ("a.csv.gz", b"", "no row, {}; give a CSV"),
    ("a.jsonl", b"", "no row, {}; give a CSV"),
    ("a.jsonl", b'{"sequence": "A", "label": 1}\n["A", 1]\n', "not a JSON object, {}:2; write one a line"),
    ("a.jsonl", b'{"sequence": "A", "label": 1}\n{"sequence": "A", \n', "not a JSON object (Expecting property name"),
    ("a.jsonl", b"{" * 5 + b"\n", "not a JSON object (Expecting property name enclosed in double quotes), {}:1; "),
    ("a.jsonl", b"[" * 100_000 + b"\n", "not a JSON object (maximum recursion depth exceeded"),
    ("a.jsonl", b'{"sequence": ' + b"1" * 5000 + b', "label": 1}\n', "not a JSON object (Exceeds the limit (4300"),
    ("a.jsonl", b'{"sequence": "a\\ud83d", "label": 1}\n', "not a JSON object ('utf-8' codec can't encode character"),
    ("a.jsonl", b'\n{"sequence": "A", "class": 1}\n', "no column 'label' but sequence, class, {}:2; set task.sequence"),
    ("a.jsonl", b'{"sequence": "A", "label": [1]}\n', "the label '[1]' is neither text nor a number, {}:1; correct"),
    ("a.fa", b"ACGT\n>a 1\nAC\n", "expected a line `>name ...`, got 'ACGT', {}:1; give a FASTA file"),
    ("a.fa", b">a 1\nAC\n>b\nGT\n", "1 words in a header that needs 2, {}:3; write `>name label split`"),
    ("a.fa", b"\n", "no row, {}; give a CSV"),
    ("a.csv.gz", gzip.compress(WHOLE)[:-9], "not a whole .gz file (Compressed file ended before the end-of-stream"),
    ("a.csv.gz", bytes(BAD_DEFLATE), "not a whole .gz file (Error -3 while decompressing data"),
    ("a.csv.gz", gzip.compress(WHOLE)[:-8] + b"\0" * 8, "not a whole .gz file (CRC check failed"),
    ("a.csv.gz", WHOLE, "not a whole .gz file (Not a gzipped file (b'na')), {}; pack it again"),
    ("a.csv.xz", lzma.compress(WHOLE)[:-20], "not a whole .xz file (Compressed file ended before the end-of-stream"),
    ("a.csv.xz", WHOLE, "not a whole .xz file (Input format not supported by decoder), {}; pack it again"),
    ("a.csv.xz", b"", "not a whole .xz file (Compressed file ended before the end-of-stream"),
    ("a.txt", b"sequence,label\nAC,1\n", "a.txt ends in none of .csv .tsv .jsonl .fa .faa .fasta .fna, {}; give a CSV"),
    ("data", b"sequence,label\nAC,1\n", "data ends in none of .csv .tsv"),
    ("a.gz", gzip.compress(WHOLE), "a.gz ends in none of .csv .tsv"),
  ],
)  # fmt: skip
def test_hostile_files_are_one_line(name, content, message, tmp_path):
  path = written(tmp_path, name, content)
  with pytest.raises(UserError, match=re.escape(message.replace("{}", str(path)))) as raised:
    rows(path)
  assert "\n" not in str(raised.value)
  assert f", {path}" in str(raised.value)
  assert list(tmp_path.iterdir()) == [path]


def test_fasta_without_a_split(tmp_path):
  path = written(tmp_path, "a.fa", ">a 1 train\nAC\n>b 1\nGT\n")
  with pytest.raises(
    UserError, match=f"2 words in a header that needs 3, {path}:3; write `>name label"
  ):
    rows(path, split="part")


def test_a_missing_file_and_a_folder(tmp_path):
  with pytest.raises(UserError, match=f"No such file or directory, {tmp_path}/a.csv; give a CSV"):
    rows(tmp_path / "a.csv")
  (tmp_path / "b.csv").mkdir()
  with pytest.raises(
    UserError, match=f"Is a directory, {tmp_path}/b.csv; give a CSV, TSV, JSONL or FASTA"
  ):
    rows(tmp_path / "b.csv")
