"""Documents from every format, and what is wrong with any other file."""

import gzip
import json
import lzma
import re

import pytest

from discipline_jax.corpora.text import Document, find_files, read_documents
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


def read(*paths):
  return [(one.place.rpartition(":")[2], one.paragraphs) for one in read_documents(paths)]


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
  assert [one.paragraphs[0] for one in read_documents(find_files(tmp_path))] == [
    "a/wiki_00",
    "a/wiki_02",
    "b/wiki_01",
  ]
  assert find_files(tmp_path / "b" / "wiki_01") == [tmp_path / "b" / "wiki_01"]


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("a.txt", b"", "no document, {}; give corpus.path a file or a folder"),
    ("a.txt", b"\n \n", "no document, {}; "),
    ("a.jsonl", b'{"text": ""}\n', "no document, {}; "),
    ("a.jsonl", b'{"text": "a"}\n{"title": "b"}\n', "not a JSON object with a `text` (KeyError: 'text'), {}:2; "),
    ("a.jsonl", b'["text"]\n', "not a JSON object with a `text` (TypeError"),
    ("a.jsonl", b'{"text": 5}\n', "not a JSON object with a `text` (AttributeError"),
    ("a.jsonl", b'{"text": "a\\ud83d"}\n', "not a JSON object with a `text` (UnicodeEncodeError"),
    ("a.jsonl", b"{\n", "not a JSON object with a `text` (JSONDecodeError"),
    ("wiki", b"<doc id=1>\nA\n<doc id=2>\n", "a document begins before that of line 1 ends, {}:3; extract"),
    ("wiki", b"<doc id=1>\nA\n</doc>\nB\n", "text outside a document, 'B', {}:4; extract"),
    ("wiki", b"<doc id=1>\n</doc>\n</doc>\n", "</doc> without a document, {}:3; extract"),
    ("wiki", b"<doc id=1>\nA\n", "the document of line 1 has no end, {}; the file was cut off"),
    ("wiki", b"One.\n\nTw\xff\n", "not UTF-8 text (invalid start byte), {}:3; save it as UTF-8"),
    ("wiki.xz", lzma.compress(b"One." * 999)[:-9], "not a whole .xz file (Compressed file ended"),
    ("wiki.gz", b"One.", "not a whole .gz file (Not a gzipped file"),
  ],
)  # fmt: skip
def test_hostile_files_are_one_line(name, content, message, tmp_path):
  path = written(tmp_path, name, content)
  with pytest.raises(UserError, match=re.escape(message.replace("{}", str(path)))) as raised:
    list(read_documents([path]))
  assert "\n" not in str(raised.value)


def test_nothing_to_read(tmp_path):
  with pytest.raises(UserError, match=f"no file of text, {tmp_path}; give corpus.path"):
    find_files(tmp_path)
  with pytest.raises(UserError, match=f"no file of text, {tmp_path}/none; give corpus.path"):
    find_files(tmp_path / "none")


def test_the_real_files(shared):
  folder = shared / "data" / "text"
  documents = list(read_documents(find_files(folder / "kannada")))
  assert len(documents) == 646
  assert sum(len(one.paragraphs) for one in documents) == 31_235
  first = next(read_documents(find_files(folder / "enwiki")))
  assert isinstance(first, Document)
  assert first.paragraphs[0] == "Chen Zhili"
