"""Tests that files that are not a corpus are refused, and that the message says what they are."""

import gzip
import lzma
import zipfile

import pytest

from discipline_jax.corpora.text import read_documents
from discipline_jax.errors import UserError


@pytest.mark.parametrize(
  ("name", "content", "fact"),
  [
    ("a.csv", b"a,b\n1,2\n", "table .*jsonl"),
    ("a.tsv.gz", gzip.compress(b"a\tb\n", mtime=0), "table .*jsonl"),
    ("a.txt", b"%PDF-1.4\n%\xe2\xe3", "PDF"),
    ("a.txt", "One text.".encode("utf-16"), "UTF-16"),
    ("a.txt", "One text.".encode("utf-16-le"), "UTF-16"),
    ("a.txt", b"\x00\x01\x02" * 9, "binary"),
    ("a.txt.gz", gzip.compress(b"\x00\x01\x02" * 9, mtime=0), "binary"),
    ("a.txt.xz", lzma.compress(b"%PDF-1.4\n"), "PDF"),
    ("a.txt", gzip.compress(b"One text.", mtime=0), "gzip.*\\.gz"),
    ("a.txt", lzma.compress(b"One text."), "xz.*\\.xz"),
    ("a.gz", b"One text.", r"\.gz file .*a\.gz"),
    ("a.txt", b"PK\x03\x04rest", "zip"),
    ("a.json", b'[{"text": "a"}]', "jsonl"),
    ("wiki_00", b'{"id": "1", "text": "One text."}\n', r"jsonl"),
    ("a.txt", b'{"id": "1", "body": "One text."}\n', "`text`.*jsonl"),
    ("a.fastq", b"@one\nACGT\n+\nFFFF\n", "FASTQ"),
    ("a.gbk", b"LOCUS one\n", "GenBank"),
    ("a.vcf", b"##fileformat\n", "variants"),
    ("a.txt", b"", "document"),
    ("a.txt", b"\xef\xbb\xbf \n", "document"),
    ("a.txt", b"One\ntext \xff.\n", r"a\.txt:2"),
  ],
)
def test_refused(tmp_path, name, content, fact):
  path = tmp_path / name
  path.write_bytes(content)
  with pytest.raises(UserError, match=fact) as caught:
    list(read_documents(path))
  assert str(path) in str(caught.value)


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("a.txt", '{"quoted"} is how it begins.\n'),
    ("a.txt", "\ufeffOne text.\n"),
    ("a.md", "> a quotation\nand text\n"),
    ("a.jsonl", '{"text": "One text."}\n'),
    ("a", "PDF and PK are letters.\n"),
  ],
)
def test_read(tmp_path, name, content):
  (tmp_path / name).write_text(content, encoding="utf-8")
  assert len(list(read_documents(tmp_path / name))) == 1


def test_an_office_document(tmp_path):
  with zipfile.ZipFile(tmp_path / "a.txt", "w") as archive:
    archive.writestr("word/document.xml", "<w/>")
  with pytest.raises(UserError, match=r"a\.txt .*office"):
    list(read_documents(tmp_path / "a.txt"))
