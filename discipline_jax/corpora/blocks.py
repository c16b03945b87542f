"""A part of a corpus that one process makes into files by itself: some documents, or some lines to draw."""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sentencex
from jaxtyping import Float64, Int

from discipline_jax.corpora import artificial
from discipline_jax.corpora.instances import make_instances
from discipline_jax.corpora.records import write_records
from discipline_jax.corpora.text import Document
from discipline_jax.corpora.vocabulary import SPECIAL_TOKENS
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary

PARTS = ("train", "validation")
_CHARACTERS = 1 << 24  # of a block of text
_LINES = 50_000  # of a block of an artificial corpus

# The sentences of a document, each as its tokens.
Sentences = list[Int[np.ndarray, " tokens"]]


@dataclasses.dataclass(frozen=True)
class Settings:
  """What blocks are made into.

  Attributes:
    language: of the text, by which sentences are split.
    lengths: tokens of a row, for each of the phases.
    draws: how often training instances are drawn.
    pairing: see `instances`.
    validation: share of the documents that is held out.
    seed: of all that is drawn.
  """

  language: str
  lengths: tuple[int, ...]
  draws: int
  pairing: str
  validation: float
  seed: int


@dataclasses.dataclass(frozen=True)
class TextBlock:
  """Some documents of a text."""

  documents: list[Document]

  def sentences(self, settings: Settings, vocabulary: Vocabulary) -> list[Sentences]:
    """Those of each document that has any token."""
    return tokenise(self.documents, settings.language, vocabulary)


@dataclasses.dataclass(frozen=True)
class LinesBlock:
  """Lines of an artificial corpus, drawn where they are needed.

  Attributes:
    kind: uniform, flat or nesting.
    num_lines: how many.
    seed: of this block.
    frequencies: of the symbols.
  """

  kind: str
  num_lines: int
  seed: tuple[int, ...]
  frequencies: Float64[np.ndarray, " symbols"]

  def lines(self) -> artificial.Lines:
    """The lines, of symbols."""
    if self.kind == "uniform":
      return artificial.uniform(self.num_lines, self.seed, len(self.frequencies))
    draw = {"flat": artificial.flat, "nesting": artificial.nesting}[self.kind]
    return draw(self.num_lines, self.seed, self.frequencies)

  def sentences(self, settings: Settings, vocabulary: Vocabulary) -> list[Sentences]:
    """A line is a document of one sentence."""
    return [[line + len(SPECIAL_TOKENS)] for line in self.lines()]


Block = TextBlock | LinesBlock


def text_blocks(documents: Iterable[Document], pairing: str) -> Iterator[TextBlock]:
  """Cuts a corpus into blocks; what is too little for one at the end goes to the one before."""
  block: list[Document] = []
  rest: list[Document] = []
  characters = 0
  for document in documents:
    rest.append(document)
    characters += sum(map(len, document.paragraphs))
    if characters >= _CHARACTERS and len(rest) >= 2 * _least(pairing):
      if block:
        yield TextBlock(block)
      block, rest, characters = rest, [], 0
  yield TextBlock(block + rest)


def line_blocks(
  kind: str, num_lines: int, seed: int, frequencies: Float64[np.ndarray, " symbols"]
) -> Iterator[LinesBlock]:
  """Cuts an artificial corpus into blocks."""
  for number in range(max(1, num_lines // _LINES)):
    rest = num_lines - number * _LINES
    count = rest if rest < 2 * _LINES else _LINES  # the last block takes what is left
    yield LinesBlock(kind, count, (seed, number), frequencies)


def tokenise(
  documents: Sequence[Document], language: str, vocabulary: Vocabulary
) -> list[Sentences]:
  """The tokens of each sentence of each document; a document without any is left out."""
  assert vocabulary.tokenizer is not None
  texts = [
    [text for paragraph in one.paragraphs for text in sentencex.segment(language, paragraph)]
    for one in documents
  ]
  flat = [text for one in texts for text in one]
  encodings = iter(vocabulary.tokenizer.encode_batch_fast(flat, add_special_tokens=False))
  result = []
  for one in texts:
    sentences = [np.array(next(encodings).ids, np.int32) for _ in one]
    sentences = [sentence for sentence in sentences if len(sentence)]
    if sentences:
      result.append(sentences)
  return result


def write_block(
  number: int,
  block: Block,
  settings: Settings,
  vocabulary: Vocabulary,
  directory: pathlib.Path,
) -> dict[str, np.ndarray]:
  """Writes the files of a block, a function of the arguments alone.

  Returns:
    Counts to be added up over blocks: `documents`, `sentences`, `tokens` by id, and for each part and length, as
    `train_128`, its instances and their tokens; `long_128`: sentences that had to be cut.

  Raises:
    UserError: the block has too few documents to hold some out, or to pair them.
  """
  documents = block.sentences(settings, vocabulary)
  parts = _split(documents, settings)
  counts = {
    "documents": np.array(len(documents)),
    "sentences": np.array(sum(map(len, documents))),
    "tokens": np.bincount(
      np.concatenate([sentence for one in documents for sentence in one]),
      minlength=len(vocabulary.tokens),
    ),
  }
  for length in settings.lengths:
    counts[f"long_{length}"] = np.array(0)
    for part, own in parts.items():
      fitting, long = _fit(own, length - 3)
      counts[f"long_{length}"] += long
      counts[f"{part}_{length}"] = np.zeros(2, int)
      for draw in range(settings.draws if part == "train" else 1):
        seed = [settings.seed, number, length, draw, PARTS.index(part)]
        instances = make_instances(fitting, length=length, pairing=settings.pairing, seed=seed)
        file = directory / file_name(part, length, draw, f"{number:05}")
        counts[f"{part}_{length}"] += write_records(file, instances, vocabulary)
  return counts


def file_name(part: str, length: int, draw: int, number: str) -> str:
  """The name of a block's file; `*` for `number` is a pattern of all."""
  return f"{part}-{length}-{draw}-{number}.array_record"


def _least(pairing: str) -> int:
  """Documents that a part must have: a next sentence of another one needs two."""
  return 2 if pairing == "next_sentence" else 1


def _split(documents: list[Sentences], settings: Settings) -> dict[str, list[Sentences]]:
  """Holds documents out at even distances."""
  least = _least(settings.pairing)
  if len(documents) < 2 * least:
    why = (
      "a next sentence of another document"
      if settings.pairing == "next_sentence"
      else "a held-out one"
    )
    remedy = ", or set objective.kind=mlm" if least > 1 else ""
    raise UserError(
      f"the corpus has {len(documents)} document(s) with text, but {why} needs at least {2 * least};"
      f" put blank lines between documents{remedy}"
    )
  count = min(max(least, round(settings.validation * len(documents))), len(documents) - least)
  held_out = {int((i + 0.5) * len(documents) / count) for i in range(count)}
  return {
    "train": [one for i, one in enumerate(documents) if i not in held_out],
    "validation": [one for i, one in enumerate(documents) if i in held_out],
  }


def _fit(documents: list[Sentences], room: int) -> tuple[list[Sentences], int]:
  """Cuts sentences that no row has room for into parts; also how many these are.

  Pairs are gathered until they are too long, and then cut: of small parts little is lost.
  """
  long = sum(len(sentence) > room for one in documents for sentence in one)
  if not long:
    return documents, 0
  return [[part for sentence in one for part in _parts(sentence, room)] for one in documents], long


def _parts(sentence: np.ndarray, room: int) -> list[np.ndarray]:
  size = max(1, room // 4) if len(sentence) > room else len(sentence)
  return np.array_split(sentence, -(-len(sentence) // size))
