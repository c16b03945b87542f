"""Reads the documents of a text corpus: WikiExtractor's files, plain text and JSON lines, also compressed."""

import contextlib
import dataclasses
import importlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

from discipline_jax.corpora.file_kinds import check_kind
from discipline_jax.errors import UserError
from discipline_jax.files.packed_text import head, kind_of, lines

REMEDY = "set corpus.path to a file or a folder of text, plain or compressed by gzip or xz"
_HEAD = 4096  # bytes
_DOC = re.compile(r"<doc\b[^>]*>\s*$")


@dataclasses.dataclass(frozen=True)
class Document:
  """One document of a corpus.

  Attributes:
    place: the `file:line` at which the document begins.
    paragraphs: its lines of text, stripped of blanks; empty lines are dropped.
  """

  place: str
  paragraphs: tuple[str, ...]


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


def read_documents(paths: Sequence[pathlib.Path]) -> Iterator[Document]:
  """Yields the documents of files, one file after the other; drops documents without text.

  The format is recognised: a `.jsonl` file has one object with a `text` in each line; a file whose first line is
  `<doc ...>` is WikiExtractor's; any other file is plain text with blank lines between documents.

  Raises:
    UserError: a file cannot be read (the message names the line), or it has no document.
  """
  for path in paths:
    number_of_documents = 0
    for document in _read(path):
      if document.paragraphs:
        number_of_documents += 1
        yield document
    if number_of_documents == 0:
      raise UserError(f"no document with text, {path}; {REMEDY}")


def read_tfds(name: str) -> Iterator[Document]:
  """Yields the documents of a TensorFlow Datasets data set whose records have a `text`: `wikipedia/20230601.en`.

  Raises:
    UserError: TensorFlow Datasets is not installed, or it cannot provide the data set.
  """
  try:
    import tensorflow_datasets as tfds  # late: an optional package that takes seconds to import
  except ImportError as error:
    raise UserError(
      f"corpus.name = 'tfds' needs TensorFlow Datasets ({error}); pip install 'discipline-jax[tfds]'"
    ) from None
  try:
    # Without TensorFlow, only data sets whose modules are imported are known.
    module = f"tensorflow_datasets.text.{name.partition('/')[0]}"
    with contextlib.suppress(ModuleNotFoundError):
      importlib.import_module(module)
    source = tfds.data_source(name, split="train")
    decoded = (record["text"].decode("utf-8") for record in source)
    texts = itertools.chain([next(decoded)], decoded)  # a data set without a `text` fails here
  except Exception as error:  # the library, its downloads and the system raise many kinds
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    raise UserError(
      f"TensorFlow Datasets cannot provide the texts of {name} ({type(error).__name__}: {reason}); prepare the data set"
      " with that library's own tools (Wikipedia needs apache-beam, mwparserfromhell and mwxml), or set"
      " --config.corpus.name=text and --config.corpus.path"
    ) from None
  for number, text in enumerate(texts):
    paragraphs = (paragraph.strip() for paragraph in text.splitlines())
    document = Document(f"{name}:{number}", tuple(one for one in paragraphs if one))
    if document.paragraphs:
      yield document


def _read(path: pathlib.Path) -> Iterator[Document]:
  """Yields the documents of one file, also those without text."""
  check_kind(path, remedy=REMEDY)
  content = read_lines(path)
  if kind_of(path) == ".jsonl":
    yield from _json(content, path)
    return
  numbered = enumerate((line.strip() for line in content), 1)
  first = next(numbered, None)
  if first is None:
    return
  read = _wiki_extractor if _DOC.match(first[1]) else _plain
  yield from read(itertools.chain([first], numbered), path)


def read_lines(path: pathlib.Path) -> Iterator[str]:
  """Yields the lines of a file, also of one whose lines end in carriage returns alone."""
  start = head(path, _HEAD, REMEDY)
  is_old = b"\r" in start and b"\n" not in start
  for line in lines(path, REMEDY):
    yield from line.split("\r") if is_old else [line]


def _plain(numbered: Iterable[tuple[int, str]], path: pathlib.Path) -> Iterator[Document]:
  """Reads numbered lines of plain text."""
  start = 1
  paragraphs: list[str] = []
  for number, line in numbered:
    if line:
      start = start if paragraphs else number
      paragraphs.append(line)
    else:
      yield Document(f"{path}:{start}", tuple(paragraphs))
      paragraphs = []
  yield Document(f"{path}:{start}", tuple(paragraphs))


def _wiki_extractor(numbered: Iterable[tuple[int, str]], path: pathlib.Path) -> Iterator[Document]:
  """Reads numbered lines of WikiExtractor's format."""
  start = 0  # the first line of the open document, or 0 between documents
  paragraphs: list[str] = []
  for number, line in numbered:
    if _DOC.match(line):
      if start:
        raise UserError(
          f"a document begins before the one of line {start} ends, {path}:{number}; extract the dump again"
        )
      start, paragraphs = number, []
    elif line == "</doc>":
      if not start:
        raise UserError(f"</doc> without a document, {path}:{number}; extract the dump again")
      yield Document(f"{path}:{start}", tuple(paragraphs))
      start = 0
    elif line:
      if not start:
        raise UserError(
          f"text outside a document, {line[:40]!r}, {path}:{number}; extract the dump again"
        )
      paragraphs.append(line)
  if start:
    raise UserError(f"a document has no </doc>, {path}:{start}; extract the dump again")


def _json(content: Iterable[str], path: pathlib.Path) -> Iterator[Document]:
  """Reads lines of JSON."""
  for number, line in enumerate(content, 1):
    if not line.strip():
      continue
    place = f"{path}:{number}"
    try:
      text = json.loads(line)["text"]
      text.encode()  # fails for half of a surrogate pair, which JSON allows
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
      reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
      raise UserError(
        f"not a JSON object with a `text` ({reason}), {place}; correct the line"
      ) from None
    paragraphs = (paragraph.strip() for paragraph in text.splitlines())
    yield Document(place, tuple(paragraph for paragraph in paragraphs if paragraph))
