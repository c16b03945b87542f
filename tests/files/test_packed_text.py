"""Tests of reading plain and compressed text files, whole and broken."""

import gzip
import lzma
import pathlib

import pytest

from discipline_jax.errors import UserError
from discipline_jax.files.packed_text import kind_of, lines

TEXT = "a\r\n\nä\nlast"
LINES = ["a\r\n", "\n", "ä\n", "last"]


@pytest.mark.parametrize(
  ("name", "kind"),
  [
    ("a.csv", ".csv"),
    ("a.CSV.gz", ".csv"),
    ("a.b.tsv.XZ", ".tsv"),
    ("a.gz", ""),
    ("a", ""),
    ("a.gz.csv", ".csv"),
  ],
)
def test_kind_of(name, kind):
  assert kind_of(pathlib.Path(name)) == kind


@pytest.mark.parametrize(
  ("name", "pack"),
  [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.xz", lzma.compress), ("a.GZ", gzip.compress)],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_the_lines_of_a_file(tmp_path, name, pack, mark):
  path = tmp_path / name
  path.write_bytes(pack((mark + TEXT).encode()))
  assert list(lines(path, "do this")) == LINES


@pytest.mark.parametrize(
  ("name", "content", "fact"),
  [
    ("a.txt", b"a\nb\n\xff\n", "a.txt:3"),
    ("a.txt.gz", gzip.compress(b"a\n\xff\n", mtime=0), "a.txt.gz:2"),
    ("a.gz", gzip.compress(TEXT.encode(), mtime=0)[:-9], r"\.gz file .*a\.gz;"),
    ("a.gz", TEXT.encode(), r"\.gz file .*a\.gz;"),
    ("a.xz", lzma.compress(TEXT.encode())[:-9], r"\.xz file .*a\.xz;"),
    ("a.xz", TEXT.encode(), r"\.xz file .*a\.xz;"),
    ("a.txt", None, r"a\.txt; do this"),
  ],
  ids=["not UTF-8", "packed, not UTF-8", "cut .gz", "plain .gz", "cut .xz", "plain .xz", "missing"],
)
def test_a_broken_file_is_named(tmp_path, name, content, fact):
  if content is not None:
    (tmp_path / name).write_bytes(content)
  with pytest.raises(UserError, match=fact) as caught:
    list(lines(tmp_path / name, "do this"))
  assert "\n" not in str(caught.value)


def test_the_lines_before_a_broken_one_are_read(tmp_path):
  path = tmp_path / "a.txt"
  path.write_bytes(b"a\n\xff\n")
  read = lines(path, "do this")
  assert next(read) == "a\n"
  with pytest.raises(UserError, match="a.txt:2"):
    next(read)
