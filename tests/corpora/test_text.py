"""Tests reading documents in every format, and the errors for broken files."""

import gzip
import json
import lzma
import re

import pytest

from discipline_jax.corpora.text import Document, TextFiles, find_files, read_documents
from discipline_jax.errors import UserError

WIKI = """<doc id="1" url="u" title="A (b)">
A (b)

First paragraph.
Second <ref> one.

</doc>

<doc id="2" url="u" title="Empty">
</doc>
<doc id="3" url="u" title="C">
C
</doc>
"""
PLAIN = "\n\nOne.\n  Two.  \n\n\n \nThree.\n"


def written(folder, name, content):
  path = folder / name
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return path


def read(path):
  return [(one.place.rpartition(":")[2], one.paragraphs) for one in read_documents(path)]


@pytest.mark.parametrize(
  ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
class TestFormats:
  def test_wiki_extractor(self, suffix, pack, bom, end, tmp_path):
    path = written(tmp_path, f"wiki_00{suffix}", pack(bom + WIKI.replace("\n", end).encode()))
    assert read(path) == [
      ("1", ("A (b)", "First paragraph.", "Second <ref> one.")),
      ("11", ("C",)),
    ]

  def test_plain_text(self, suffix, pack, bom, end, tmp_path):
    path = written(tmp_path, f"a.txt{suffix}", pack(bom + PLAIN.replace("\n", end).encode()))
    assert read(path) == [("3", ("One.", "Two.")), ("8", ("Three.",))]

  def test_json(self, suffix, pack, bom, end, tmp_path):
    rows = [{"text": "One.\n\nTwo."}, {"title": "x", "text": " \n"}, {"text": "Three."}]
    content = end.join(["", *map(json.dumps, rows), ""])
    path = written(tmp_path, f"a.jsonl{suffix}", pack(bom + content.encode()))
    assert read(path) == [("2", ("One.", "Two.")), ("4", ("Three.",))]


def test_a_folder_in_the_order_of_names(tmp_path):
  for name in ("b/wiki_01", "a/wiki_02", "a/wiki_00", ".git/config", "a/.hidden"):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(name)
  texts = TextFiles(tuple(find_files(tmp_path)))
  assert [one.paragraphs[0] for unit in range(texts.units) for one in texts.read(unit)] == [
    "a/wiki_00",
    "a/wiki_02",
    "b/wiki_01",
  ]
  assert find_files(tmp_path / "b" / "wiki_01") == [tmp_path / "b" / "wiki_01"]


@pytest.mark.parametrize(
  ("name", "content", "place", "facts"),
  [
    ("a.txt", b"", "; ", "document|corpus.path"),
    ("a.txt", b"\n \n", "; ", "document|corpus.path"),
    ("a.jsonl", b'{"text": ""}\n', "; ", "document|corpus.path"),
    ("a.jsonl", b'{"text": "a"}\n{"title": "b"}\n', ":2; ", "`text`|KeyError"),
    ("a.jsonl", b'["text"]\n', ":1; ", "`text`|TypeError"),
    ("a.jsonl", b'{"text": 5}\n', ":1; ", "`text`|AttributeError"),
    ("a.jsonl", b'{"text": "a\\ud83d"}\n', ":1; ", "`text`|UnicodeEncodeError"),
    ("a.jsonl", b"{\n", ":1; ", "`text`|JSONDecodeError"),
    ("wiki", b"<doc id=1>\nA\n<doc id=2>\n", ":3; ", "line 1 "),
    ("wiki", b"<doc id=1>\nA\n</doc>\nB\n", ":4; ", "'B'"),
    ("wiki", b"<doc id=1>\n</doc>\n</doc>\n", ":3; ", "</doc> without"),
    ("wiki", b"<doc id=1>\n</doc>\n\n<doc id=2>\nA\n", ":4; ", "no </doc>"),
    ("wiki", b"One.\n\nTw\xff\n", ":3; ", "UTF-8"),
    ("wiki.xz", lzma.compress(b"One." * 999)[:-9], "; ", " .xz "),
    ("wiki.gz", b"One.", "; ", " .gz "),
  ],
)  # fmt: skip
def test_hostile_files_are_one_line(name, content, place, facts, tmp_path):
  path = written(tmp_path, name, content)
  with pytest.raises(UserError, match=re.escape(f", {path}{place}")) as raised:
    list(read_documents(path))
  message = str(raised.value)
  assert "\n" not in message
  for fact in facts.split("|"):
    assert fact in message


def test_nothing_to_read(tmp_path):
  for path in (tmp_path, tmp_path / "none"):
    with pytest.raises(UserError, match=f" {path}; .*corpus.path"):
      find_files(path)


def test_the_real_files(shared):
  folder = shared / "data" / "text"
  paths = find_files(folder / "kannada")
  documents = [one for path in paths for one in read_documents(path)]
  assert len(documents) == 646
  assert sum(len(one.paragraphs) for one in documents) == 31_235
  first = next(read_documents(find_files(folder / "enwiki")[0]))
  assert isinstance(first, Document)
  assert first.paragraphs[0] == "Chen Zhili"
