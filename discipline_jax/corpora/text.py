"""Reads the documents of a text corpus: WikiExtractor's files, plain text and JSON lines, also compressed."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Iterator

from discipline_jax.corpora.file_kinds import check_kind, is_fasta
from discipline_jax.corpora.lines import REMEDY, Files, Line, read_lines
from discipline_jax.errors import UserError
from discipline_jax.files.packed_text import kind_of

_DOC = re.compile(r"<doc\b[^>]*>\s*$")


@dataclasses.dataclass(frozen=True)
class Document:
  """One document of a corpus.

  Attributes:
    place: the `file:line` at which the document begins.
    paragraphs: its lines of text, stripped of blanks; empty lines are dropped.
    offset: where reading can begin so that this document, or an earlier one with the same offset, comes first: a byte
      of the file, or the number of a record.
  """

  place: str
  paragraphs: tuple[str, ...]
  offset: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True)
class TextFiles(Files):
  """Files of natural text."""

  def read(self, unit: int, offset: int = 0, line: int = 1) -> Iterator[Document]:
    """Yields the documents of a file, as `read_documents` does.

    Raises:
      UserError: a file cannot be read, has no document, or is FASTA.
    """
    path = self.paths[unit]
    if is_fasta(path, remedy=REMEDY):
      raise UserError(
        f"a FASTA file, whose sequences are not text, {path}; set --config.corpus.symbols=characters, or kmers with"
        " --config.corpus.k"
      )
    return read_documents(path, offset, line)


def find_files(path: pathlib.Path) -> list[pathlib.Path]:
  """Returns the file itself, or all files in the folder and its subfolders, sorted by path, without hidden ones.

  Raises:
    UserError: there is no file.
  """
  if path.is_file():
    return [path]
  files = sorted(
    file
    for file in path.rglob("*")
    if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
  )
  if not files:
    raise UserError(f"no files, {path}; {REMEDY}")
  return files


def read_documents(path: pathlib.Path, offset: int = 0, line: int = 1) -> Iterator[Document]:
  """Yields the documents of a file; drops documents without text.

  The format is recognised: a `.jsonl` file has one object with a `text` in each line; a file whose first line is
  `<doc ...>` is WikiExtractor's; any other file is plain text with blank lines between documents.

  Args:
    path: the file.
    offset, line: a document's `offset` and the number of the line there, to begin with that document.

  Raises:
    UserError: the file cannot be read (the message names the line), or it has no document.
  """
  read = {"json": _json, "wiki": _wiki_extractor, "plain": _plain}[text_format(path)]
  yield from not_empty(read(read_lines(path, offset, line), path), path)


def not_empty(documents: Iterable[Document], path: pathlib.Path) -> Iterator[Document]:
  """Yields the documents of a file that have text; raises UserError if none has."""
  number_of_documents = 0
  for document in documents:
    if document.paragraphs:
      number_of_documents += 1
      yield document
  if number_of_documents == 0:
    raise UserError(f"no document with text, {path}; {REMEDY}")


def text_format(path: pathlib.Path) -> str:
  """Returns how documents are written in a file: `json`, `wiki` or `plain`; raises UserError if it holds no text."""
  check_kind(path, remedy=REMEDY)
  if kind_of(path) == ".jsonl":
    return "json"
  first = next(read_lines(path), None)
  return "wiki" if first is not None and _DOC.match(first.text.strip()) else "plain"


def _plain(content: Iterable[Line], path: pathlib.Path) -> Iterator[Document]:
  """Reads lines of plain text."""
  start: Line | None = None
  paragraphs: list[str] = []
  for line in content:
    text = line.text.strip()
    if text:
      start = start or line
      paragraphs.append(text)
    elif start:
      yield Document(f"{path}:{start.number}", tuple(paragraphs), start.offset)
      start, paragraphs = None, []
  if start:
    yield Document(f"{path}:{start.number}", tuple(paragraphs), start.offset)


def _wiki_extractor(content: Iterable[Line], path: pathlib.Path) -> Iterator[Document]:
  """Reads lines of WikiExtractor's format."""
  start: Line | None = None  # the first line of the open document
  paragraphs: list[str] = []
  for line in content:
    text, place = line.text.strip(), f"{path}:{line.number}"
    if _DOC.match(text):
      if start:
        raise UserError(
          f"a document begins before the one of line {start.number} ends, {place}; extract the dump again"
        )
      start, paragraphs = line, []
    elif text == "</doc>":
      if not start:
        raise UserError(f"</doc> without a document, {place}; extract the dump again")
      yield Document(f"{path}:{start.number}", tuple(paragraphs), start.offset)
      start = None
    elif text:
      if not start:
        raise UserError(f"text outside a document, {text[:40]!r}, {place}; extract the dump again")
      paragraphs.append(text)
  if start:
    raise UserError(f"a document has no </doc>, {path}:{start.number}; extract the dump again")


def _json(content: Iterable[Line], path: pathlib.Path) -> Iterator[Document]:
  """Reads lines of JSON."""
  for line in content:
    if not line.text.strip():
      continue
    place = f"{path}:{line.number}"
    try:
      text = json.loads(line.text)["text"]
      text.encode()  # fails for half of a surrogate pair, which JSON allows
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
      reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
      raise UserError(
        f"not a JSON object with a `text` ({reason}), {place}; correct the line"
      ) from None
    paragraphs = (paragraph.strip() for paragraph in text.splitlines())
    yield Document(place, tuple(paragraph for paragraph in paragraphs if paragraph), line.offset)
