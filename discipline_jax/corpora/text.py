"""Documents of a text corpus: WikiExtractor's files, plain text, and JSON lines, each plain or packed."""

import contextlib
import dataclasses
import importlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

from discipline_jax.errors import UserError
from discipline_jax.packed_text import kind_of, lines

_REMEDY = "give corpus.path a file or a folder of text, gzip or xz"
_DOC = re.compile(r"<doc\b[^>]*>\s*$")


@dataclasses.dataclass(frozen=True)
class Document:
  """One document.

  Attributes:
    place: `file:line` of its beginning.
    paragraphs: its lines of text, without blanks around them; none is empty.
  """

  place: str
  paragraphs: tuple[str, ...]


def find_files(path: pathlib.Path) -> list[pathlib.Path]:
  """The file, or all files below the folder in the order of their names, but hidden ones.

  Raises:
    UserError: there is none.
  """
  if path.is_file():
    return [path]
  files = sorted(
    file
    for file in path.rglob("*")
    if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
  )
  if not files:
    raise UserError(f"no file of text, {path}; {_REMEDY}")
  return files


def read_documents(paths: Sequence[pathlib.Path]) -> Iterator[Document]:
  """Yields the documents of some files, one after the other; those without a paragraph are left out.

  A file is read as what it is: `.jsonl` has one object a line, with a `text`; a file whose first line is `<doc ...>` is
  WikiExtractor's; in any other, blank lines stand between documents.

  Raises:
    UserError: a file that cannot be read, with the line, or without any document.
  """
  for path in paths:
    number_of_documents = 0
    for document in _read(path):
      if document.paragraphs:
        number_of_documents += 1
        yield document
    if number_of_documents == 0:
      raise UserError(f"no document, {path}; {_REMEDY}")


def read_tfds(name: str) -> Iterator[Document]:
  """Yields the documents of a data set of TensorFlow Datasets that has a `text`, such as `wikipedia/20230601.en`.

  Raises:
    UserError: TensorFlow Datasets is not installed, or the data set cannot be had.
  """
  try:
    import tensorflow_datasets as tfds  # seconds, and an extra of its own
  except ImportError as error:
    raise UserError(
      f"corpus.name = 'tfds' needs TensorFlow Datasets ({error}); pip install 'discipline-jax[tfds]'"
    ) from None
  try:
    # Without TensorFlow it knows the data sets alone whose modules are imported.
    module = f"tensorflow_datasets.text.{name.partition('/')[0]}"
    with contextlib.suppress(ModuleNotFoundError):
      importlib.import_module(module)
    source = tfds.data_source(name, split="train")
    decoded = (record["text"].decode("utf-8") for record in source)
    texts = itertools.chain([next(decoded)], decoded)  # a set without a text shows at once
  except Exception as error:  # of the library, of its downloads and of the operating system
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    raise UserError(
      f"TensorFlow Datasets has no text {name} ({type(error).__name__}: {reason}); prepare it with its own tools (for"
      " Wikipedia apache-beam, mwparserfromhell and mwxml), or give text: --config.corpus.name=text and corpus.path"
    ) from None
  for number, text in enumerate(texts):
    paragraphs = (paragraph.strip() for paragraph in text.splitlines())
    document = Document(f"{name}:{number}", tuple(one for one in paragraphs if one))
    if document.paragraphs:
      yield document


def _read(path: pathlib.Path) -> Iterator[Document]:
  content = lines(path, _REMEDY)
  if kind_of(path) == ".jsonl":
    yield from _json(content, path)
    return
  numbered = enumerate((line.strip() for line in content), 1)
  first = next(numbered, None)
  if first is None:
    return
  read = _wiki_extractor if _DOC.match(first[1]) else _plain
  yield from read(itertools.chain([first], numbered), path)


def _plain(numbered: Iterable[tuple[int, str]], path: pathlib.Path) -> Iterator[Document]:
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
  start = 0  # between documents
  paragraphs: list[str] = []
  for number, line in numbered:
    if _DOC.match(line):
      if start:
        raise UserError(
          f"a document begins before that of line {start} ends, {path}:{number}; extract the dump again"
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
    raise UserError(f"the document of line {start} has no end, {path}; the file was cut off")


def _json(content: Iterable[str], path: pathlib.Path) -> Iterator[Document]:
  for number, line in enumerate(content, 1):
    if not line.strip():
      continue
    place = f"{path}:{number}"
    try:
      text = json.loads(line)["text"]
      text.encode()  # half a pair of surrogates is no text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
      reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:80]
      raise UserError(
        f"not a JSON object with a `text` ({reason}), {place}; correct the line"
      ) from None
    paragraphs = (paragraph.strip() for paragraph in text.splitlines())
    yield Document(place, tuple(paragraph for paragraph in paragraphs if paragraph))
