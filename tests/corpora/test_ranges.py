"""Tests ranges: the cut is that of one document after the other, and every range can be read by itself."""

import gzip
import json
import lzma
import random

import numpy as np
import pytest

from discipline_jax.corpora import ranges
from discipline_jax.corpora.lines import read_lines
from discipline_jax.corpora.ranges import RangeReader, cut, groups, list_documents, read_list
from discipline_jax.corpora.sequences import SequenceFiles, Symbols
from discipline_jax.corpora.text import Document, TextFiles
from discipline_jax.errors import UserError
from tests.corpora.small_text import plain_blocks

RNG = random.Random(0)


def texts():
  """Returns documents as lists of lines, some of them long, and with letters of one to four bytes."""
  return [
    [" ".join(RNG.choices(["word", "é", "ಕನ್ನಡ", "😀", "a"], k=RNG.randint(1, 9))) for _ in range(n)]
    for n in RNG.choices([1, 2, 5, 30], k=20)
  ]


def plain(documents):
  return "\n \n" + "\n\n\n".join("\n".join(one) for one in documents) + "\n"


def wiki(documents):
  return "".join(
    f'<doc id="{i}">\n{chr(10).join(one)}\n\n</doc>\n\n' for i, one in enumerate(documents)
  )


def lines(documents):
  return "\n".join(json.dumps({"text": "\n".join(one)}) for one in documents)


def fasta(_):
  sequences = ["".join(RNG.choices("ACGT", k=RNG.choice([5, 90, 2000]))) for _ in range(12)]
  sequences[7] += "N" * 20 + "ACGTACGT"
  return "".join(
    f">{i}\n" + "".join(f"{one[k : k + 60]}\n" for k in range(0, len(one), 60))
    for i, one in enumerate(sequences)
  )


KINDS = {"a.txt": plain, "wiki_00": wiki, "a.jsonl": lines, "a.fa": fasta}


@pytest.fixture(params=["", "bom", "crlf", "cr", ".gz", ".xz"])
def written(request, tmp_path):
  """Returns a function that writes three files of a format in some encoding."""

  def write(name):
    paths = []
    for number in range(3):
      content = KINDS[name](texts())
      end = {"crlf": "\r\n", "cr": "\r"}.get(request.param, "\n")
      data = content.replace("\n", end).encode("utf-8-sig" if request.param == "bom" else "utf-8")
      suffix = request.param if request.param[:1] == "." else ""
      paths.append(tmp_path / str(number) / f"{name}{suffix}")
      paths[-1].parent.mkdir()
      paths[-1].write_bytes({".gz": gzip.compress, ".xz": lzma.compress}.get(suffix, bytes)(data))
    return tuple(paths)

  return write


def listed(found, folder):
  """Returns the lists of all documents, in small parts."""
  parts = []
  for number, (first, last) in enumerate(groups(found)):
    count = list_documents(found, range(first, last), folder / str(number))
    own = list(read_list(folder / str(number)))
    assert count == sum(map(len, own))
    parts += own
  return parts


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", ["text", "sequences"])
def test_every_range_can_be_read_by_itself(name, kind, written, tmp_path, monkeypatch):
  paths = written(name)
  if kind == "sequences":
    found = SequenceFiles.open(paths, Symbols("characters"), (16,))
  elif name == "a.fa":
    with pytest.raises(UserError, match=f"{paths[0]}; .*corpus.symbols"):
      TextFiles(paths).read(0)
    return
  else:
    found = TextFiles(paths)
  monkeypatch.setattr(ranges, "_ROWS", 7)
  monkeypatch.setattr(ranges, "_GROUP", paths[0].stat().st_size + 1)
  monkeypatch.setattr(ranges, "CHARACTERS", 500)
  whole = [one for unit in range(found.units) for one in found.read(unit)]
  expected = plain_blocks(whole, 500, 2)
  assert len(expected) > 3
  (tmp_path / "lists").mkdir()
  pieces = cut(listed(found, tmp_path / "lists"), 2)
  in_order = RangeReader(found)
  assert [in_order.read(one) for one in pieces] == expected
  anew = RangeReader(found)
  order = RNG.sample(range(len(pieces)), len(pieces))
  for number in order:
    assert anew.read(pieces[number]) == expected[number]
    assert RangeReader(found).read(pieces[number]) == expected[number]


def test_ranges_of_plain_files_begin_where_their_documents_do(tmp_path):
  """A worker does not read what comes before its range."""
  path = tmp_path / "a.txt"
  path.write_text("One.\n\nTwo é.\nMore.\n\nThree.\n")
  offsets = [one.offset for one in TextFiles((path,)).read(0)]
  assert offsets == [0, 6, 21]
  assert [line.number for line in read_lines(path, 21, 6)] == [6]
  read = TextFiles((path,)).read(0, 21, 6)
  assert list(read) == [Document(f"{path}:6", ("Three.",))]


@pytest.mark.parametrize("least", [2, 4])
@pytest.mark.parametrize("seed", range(20))
def test_the_cut_is_that_of_one_document_after_the_other(least, seed, monkeypatch):
  monkeypatch.setattr(ranges, "CHARACTERS", 100)
  rng = np.random.default_rng(seed)
  sizes = rng.choice([1, 10, 40, 250], rng.integers(0, 60), p=rng.dirichlet(np.ones(4)))
  documents = [Document(f"a:{i}", ("x" * size,)) for i, size in enumerate(sizes)]
  rows = np.array([(0, i, i, 0, size) for i, size in enumerate(sizes)], np.int64).reshape(-1, 5)
  parts = np.split(rows, np.sort(rng.integers(0, len(rows) + 1, 4)))
  found = cut([part for part in parts if len(part)], least)
  expected = plain_blocks(documents, 100, least)
  assert [one.documents for one in found] == list(map(len, expected))
  if documents:
    starts = np.cumsum([0, *map(len, expected[:-1])])
    assert [one.offset for one in found] == starts.tolist()


def test_a_corpus_that_became_shorter(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("One.\n\nTwo.\n")
  reader = RangeReader(TextFiles((path,)))
  with pytest.raises(UserError, match=f"{path}:3"):
    reader.read(ranges.Range(0, 0, 1, 0, 3))


def test_sequences_in_one_paragraph_are_lists_of_lines(tmp_path):
  """A file without blank lines is not one document, which would be as long as the file."""
  path = tmp_path / "a.txt"
  path.write_text("ACGT\nGGTT\n\nTTAA\n")
  found = SequenceFiles.open([path], Symbols("characters"), (16,))
  assert [(one.place, one.offset) for one in found.read(0)] == [
    (f"{path}:{line}", offset) for line, offset in ((1, 0), (2, 5), (4, 11))
  ]
