"""Reads sequences of symbols (DNA, proteins, molecules) as a corpus: FASTA files, or a sequence in each line."""

import collections
import dataclasses
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence

from absl import logging
from ml_collections import ConfigDict

from discipline_jax.corpora.file_kinds import check_lines, is_fasta
from discipline_jax.corpora.lines import REMEDY, Files, Line, read_lines
from discipline_jax.corpora.text import Document, not_empty, read_documents, text_format
from discipline_jax.errors import UserError
from discipline_jax.files.fasta import parse
from discipline_jax.files.packed_text import kind_of

KINDS = ("characters", "words", "kmers")
CASES = ("as_is", "upper")
_ROWS = 32  # a longer sequence is cut into documents of at most about so many rows
_PIECES = 20  # a corpus that is a single sequence is cut into at most so many documents
# A stretch of unknown letters in a genome; shorter ones are within sequences.
_GAP = re.compile(r"[Nn]{10,}")
_NUCLEOTIDES = "ACGTUNacgtun"


@dataclasses.dataclass(frozen=True)
class Symbols:
  """Says how a sequence is cut into symbols.

  Attributes:
    kind: `characters`: each letter is a symbol; `words`: blanks stand between symbols; `kmers`: each k letters in a row
      are a symbol, so that neighbours share k - 1 letters (Ji et al. 2021, DNABERT).
    k: the letters of a k-mer; None for other kinds.
    case: `as_is`, or `upper`: small letters become capitals.
  """

  kind: str
  k: int | None = None
  case: str = "as_is"

  def read(self, line: str) -> str:
    """Returns the sequence in a line: words with one blank between them, or letters without blanks.

    Letters may be written with blanks between them, or as overlapping k-mers.
    """
    text = line.upper() if self.case == "upper" else line
    words = text.split()
    if self.kind == "words":
      return " ".join(words)
    return words[0] + "".join(word[-1] for word in words[1:]) if overlap(words) else "".join(words)

  def split(self, sequence: str) -> list[str]:
    """Returns the symbols of a sequence that `read` returned; no k-mers if it has fewer than k letters."""
    if self.kind == "words":
      return sequence.split(" ")
    if self.k is None:
      return list(sequence)
    return [sequence[i : i + self.k] for i in range(len(sequence) - self.k + 1)]

  def pieces(self, sequence: str, count: int) -> list[str]:
    """Cuts a sequence into `count` parts that are about equally long and share no letter."""
    units = sequence.split(" ") if self.kind == "words" else sequence
    ends = [len(units) * i // count for i in range(count + 1)]
    parts = [units[start:end] for start, end in itertools.pairwise(ends)]
    return [part if isinstance(part, str) else " ".join(part) for part in parts]

  def length(self, sequence: str) -> int:
    """Returns the number of letters, or of words, in a sequence."""
    return sequence.count(" ") + 1 if self.kind == "words" else len(sequence)


def symbols_of(config: ConfigDict) -> Symbols | None:
  """Returns how the corpus's sequences are cut into symbols, or None if the corpus is not of sequences."""
  corpus = config.corpus
  return None if corpus.symbols is None else Symbols(corpus.symbols, corpus.k, corpus.case)


def check_symbols(config: ConfigDict) -> None:
  """Raises UserError if the fields of a corpus of sequences are wrong or contradict one another."""
  corpus = config.corpus
  if corpus.case not in CASES:
    raise UserError(f"corpus.case = {corpus.case!r} is not one of: {', '.join(CASES)}")
  if corpus.symbols is None:
    if corpus.k is not None or corpus.case != "as_is":
      given, default = ("k", None) if corpus.k is not None else ("case", "as_is")
      raise UserError(
        f"corpus.{given} = {corpus[given]!r} is for sequences; set --config.corpus.symbols, or"
        f" --config.corpus.{given}={default}"
      )
    return
  if corpus.symbols not in KINDS:
    raise UserError(f"corpus.symbols = {corpus.symbols!r} is not one of: {', '.join(KINDS)}")
  if corpus.name != "text":
    raise UserError(
      f"corpus.symbols = {corpus.symbols!r} is for files of sequences, but corpus.name = {corpus.name!r}; set"
      " --config.corpus.name=text, or --config.corpus.symbols=None"
    )
  if (corpus.symbols == "kmers") != (corpus.k is not None) or (
    corpus.k is not None and corpus.k < 1
  ):
    raise UserError(
      f"corpus.symbols = {corpus.symbols!r} with corpus.k = {corpus.k}: k-mers need the number of their letters, 1 or"
      " more, and other symbols have none; set --config.corpus.symbols=kmers and --config.corpus.k=3, or for others"
      " --config.corpus.k=None"
    )


def overlap(words: Sequence[str]) -> int | None:
  """Returns k if words are overlapping k-mers, each the one before it moved on by a letter; else None."""
  k = len(words[0]) if words else 0
  if k < 2 or len(words) < 2 or any(len(word) != k for word in words):
    return None
  return k if all(a[1:] == b[:-1] for a, b in itertools.pairwise(words)) else None


@dataclasses.dataclass(frozen=True)
class SequenceFiles(Files):
  """Reads files of sequences: FASTA, plain text with a sequence in each line, or JSON lines with a `text`.

  In FASTA a record is a sequence, which is cut at long stretches of N if it is DNA; in other files each line is one. A
  long sequence is cut into several documents of one paragraph each, so that a part of it can be held out.

  Attributes:
    symbols: how sequences are cut into symbols.
    lengths: the lengths of rows in tokens.
    pieces: the number of documents if the corpus is a single sequence; None if there are more sequences.
  """

  symbols: Symbols
  lengths: tuple[int, ...]
  pieces: int | None

  @classmethod
  def open(
    cls, paths: Sequence[pathlib.Path], symbols: Symbols, lengths: Sequence[int]
  ) -> "SequenceFiles":
    """Opens files, and reads as far as the second sequence, to see whether there is more than one.

    Args:
      paths: the files.
      symbols: how sequences are cut into symbols.
      lengths: the lengths of rows in tokens.

    Raises:
      UserError: a file cannot be read (the message names the line), or no sequence has a symbol.
    """
    found = (one for path in paths for one in _read(path, symbols))
    first, second = next(found, None), next(found, None)
    if first is None:
      what = "symbol" if symbols.k is None else f"{symbols.k}-mer"
      raise UserError(f"no sequence with a {what}, {', '.join(map(str, paths[:2]))}; {REMEDY}")
    size = symbols.length(first.paragraphs[0])
    pieces = min(_PIECES, size // min(lengths)) if second is None else None
    return cls(tuple(paths), symbols, tuple(lengths), pieces)

  def read(self, unit: int, offset: int = 0, line: int = 1) -> Iterator[Document]:
    """Yields the documents of a file.

    Args:
      unit: the number of the file.
      offset, line: where to begin, by default at the start of the file: the `offset` of a document, and the number of
        its line.

    Raises:
      UserError: the file cannot be read; the message names the line.
    """
    for one in _read(self.paths[unit], self.symbols, offset, line):
      size = self.symbols.length(one.paragraphs[0])
      count = -(-size // (_ROWS * max(self.lengths))) if self.pieces is None else self.pieces
      for part in self.symbols.pieces(one.paragraphs[0], max(1, count)):
        yield Document(one.place, (part,), one.offset)


def _read(
  path: pathlib.Path, symbols: Symbols, offset: int = 0, line: int = 1
) -> Iterator[Document]:
  """Yields the sequences of a file that have a symbol."""
  is_of_records = is_fasta(path, remedy=REMEDY)
  read = _read_fasta if is_of_records else _read_lines
  for document in read(path, symbols, offset, line):
    if symbols.split(document.paragraphs[0][: 2 * (symbols.k or 1)]):
      yield document


def _read_lines(path: pathlib.Path, symbols: Symbols, offset: int, line: int) -> Iterator[Document]:
  """Yields the sequences of a file with one in each line."""
  if symbols.kind != "words" and kind_of(path) != ".jsonl":
    check_lines(path, remedy=REMEDY)
  if text_format(path) == "plain":  # its documents may be as long as the file
    lines = ((one, one.text.strip()) for one in read_lines(path, offset, line))
    found = (Document(f"{path}:{one.number}", (text,), one.offset) for one, text in lines if text)
    documents = not_empty(found, path)
  else:
    documents = read_documents(path, offset, line)
  for document in documents:
    for text in document.paragraphs:
      yield Document(document.place, (symbols.read(text),), document.offset)


def _read_fasta(path: pathlib.Path, symbols: Symbols, offset: int, line: int) -> Iterator[Document]:
  """Yields the sequences of a FASTA file."""
  gaps = 0
  headers: collections.deque[Line] = collections.deque()  # of the records that are not yet read

  def texts() -> Iterator[str]:
    for one in read_lines(path, offset, line):
      if one.text.startswith(">"):
        headers.append(one)
      yield one.text

  for record in parse(texts(), path):
    header = headers.popleft()
    sequence = symbols.read(_joined(record.lines))
    parts = _GAP.split(sequence) if symbols.kind != "words" and _is_dna(sequence) else [sequence]
    gaps += len(parts) - 1
    for part in parts:
      if part:
        yield Document(f"{path}:{header.number}", (part,), header.offset)
  if gaps:
    logging.info("%d stretches of 10 or more N were left out, %s", gaps, path)


def _is_dna(sequence: str) -> bool:
  """Returns whether nine of ten letters are nucleotides; in proteins, N is an amino acid."""
  return sum(map(sequence.count, _NUCLEOTIDES)) >= 0.9 * len(sequence)


def _joined(lines: Sequence[str]) -> str:
  """Returns the lines of a record as one; a stop at the end (`*`) is dropped."""
  parts = [line for line in lines if line]
  # Lines with blanks hold words or k-mers; lines without are parts of one sequence.
  has_blanks = any(" " in part or "\t" in part for part in parts)
  return (" " if has_blanks else "").join(parts).removesuffix("*")
