"""Makes files of blocks, parts of a corpus that do not depend on one another, so that processes can share the work."""

import dataclasses
import hashlib
import itertools
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int32
from tokenizers import Tokenizer

from discipline_jax.corpora import artificial
from discipline_jax.corpora.instances import make_instances
from discipline_jax.corpora.records import write_records
from discipline_jax.corpora.sequences import Symbols
from discipline_jax.corpora.tally import Tally
from discipline_jax.corpora.text import Document
from discipline_jax.corpora.vocabulary import SPECIAL_TOKENS
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary

PARTS = ("train", "validation")
_LINES = 50_000  # in a block of an artificial corpus

# The token ids of each sentence of a document; sentences differ in length.
Sentences = list[Int32[np.ndarray, " _"]]


@dataclasses.dataclass(frozen=True)
class Settings:
  """Says how the instances of a block are made.

  Attributes:
    language: the text's language, an ISO 639 code that decides how sentences are split.
    lengths: the different lengths of rows, in tokens.
    draws: the dupe factor: how many times training instances are sampled from the text.
    pairing: one of `instances.PAIRINGS`.
    validation: the share of the documents that is held out.
    seed: the seed of everything that is random.
  """

  language: str
  lengths: tuple[int, ...]
  draws: int
  pairing: str
  validation: float
  seed: int


@dataclasses.dataclass(frozen=True)
class TextBlock:
  """Holds some documents of a text corpus."""

  documents: list[Document]

  def sentences(self, settings: Settings, vocabulary: Vocabulary) -> list[Sentences]:
    """Returns the sentences of each document, as `tokenise` does."""
    assert vocabulary.tokenizer is not None
    return tokenise(self.documents, settings.language, vocabulary.tokenizer)


@dataclasses.dataclass(frozen=True)
class LinesBlock:
  """Describes some lines of an artificial corpus by what they are sampled from.

  Attributes:
    kind: uniform, flat or nesting.
    num_lines: the number of lines.
    seed: the seed of this block.
    frequencies: the frequency of each symbol.
  """

  kind: str
  num_lines: int
  seed: tuple[int, ...]
  frequencies: Float64[np.ndarray, " symbols"]

  def lines(self) -> artificial.Lines:
    """Samples the lines; each call gives the same ones."""
    if self.kind == "uniform":
      return artificial.uniform(self.num_lines, self.seed, len(self.frequencies))
    make = {"flat": artificial.flat, "nesting": artificial.nesting}[self.kind]
    return make(self.num_lines, self.seed, self.frequencies)

  def sentences(self, settings: Settings, vocabulary: Vocabulary) -> list[Sentences]:
    """Returns the lines as documents of one sentence each, in ids of the vocabulary."""
    return [[line + len(SPECIAL_TOKENS)] for line in self.lines()]


@dataclasses.dataclass(frozen=True)
class SymbolBlock:
  """Holds some sequences of symbols, each a document of one paragraph."""

  documents: list[Document]
  symbols: Symbols

  def sentences(self, settings: Settings, vocabulary: Vocabulary) -> list[Sentences]:
    """Returns the sequences as documents of one sentence each, in ids of the vocabulary."""
    ids = _SymbolIds(vocabulary)
    return [
      [np.array([ids[symbol] for symbol in self.symbols.split(one.paragraphs[0])], np.int32)]
      for one in self.documents
    ]


class _SymbolIds(dict):
  """Maps each symbol to its id, which is looked up when it is first asked for."""

  def __init__(self, vocabulary: Vocabulary):
    super().__init__()
    self._vocabulary = vocabulary

  def __missing__(self, symbol: str) -> int:
    self[symbol] = number = self._vocabulary.symbol_id(symbol)
    return number


Block = TextBlock | SymbolBlock | LinesBlock


def line_counts(num_lines: int) -> list[int]:
  """Returns the number of lines in each block of an artificial corpus; the last one takes the lines that are left."""
  count = max(1, num_lines // _LINES)
  return [_LINES] * (count - 1) + [num_lines - _LINES * (count - 1)]


@dataclasses.dataclass(frozen=True)
class TokenCounter:
  """Counts the tokens of natural text.

  Attributes:
    language: the text's language, an ISO 639 code that decides how sentences are split.
    tokenizer: the tokenizer, as JSON.
  """

  language: str
  tokenizer: str

  def count(self, documents: Sequence[Document]) -> Tally:
    """Counts the tokens of some documents; the keys are their ids."""
    found = tokenise(documents, self.language, Tokenizer.from_str(self.tokenizer))
    ids = [sentence for one in found for sentence in one]
    counts = np.bincount(np.concatenate([*ids, np.zeros(0, np.int32)]))
    return Tally({str(number): int(counts[number]) for number in np.flatnonzero(counts)})


def tokenise(documents: Sequence[Document], language: str, tokenizer: Tokenizer) -> list[Sentences]:
  """Splits documents into sentences, and sentences into token ids.

  Args:
    documents: the documents.
    language: their language, an ISO 639 code.
    tokenizer: the tokenizer; its special tokens are not added.

  Returns:
    For each document that has a token, the ids of each sentence that has one, int32 [tokens of the sentence].
  """
  import sentencex  # late: only a corpus of text needs it

  texts = [
    [text for paragraph in one.paragraphs for text in sentencex.segment(language, paragraph)]
    for one in documents
  ]
  flat = [text for one in texts for text in one]
  encodings = iter(tokenizer.encode_batch_fast(flat, add_special_tokens=False))
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
  """Writes the files of a block. Their bytes depend on the arguments alone.

  Args:
    number: the block's number in its corpus, which is part of the seed and of the files' names.
    block: the documents or lines.
    settings: the settings of the instances.
    vocabulary: the vocabulary of the corpus.
    directory: where the files are written.

  Returns:
    Counts that can be added up over blocks: `documents`; `sentences`; `tokens`, an array with the frequency of each id;
    for each part and length, for example `train_128`, an array of two: the instances and their tokens; and for each
    length, for example `long_128`, the sentences that were cut because no row has room for them. A corpus of text also
    has `repeated`, the tokens in sentences that occurred before in the block, and `copies`, an array of two: the
    held-out documents that training documents of the block copy, and all held-out ones.

  Raises:
    UserError: the block has too few documents to hold some out, or to pair them.
    RunFailed: a file cannot be written.
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
  if not isinstance(block, LinesBlock):
    counts["repeated"] = _repeated(documents)
    counts["copies"] = _copies(parts)
  for length in settings.lengths:
    counts[f"long_{length}"] = np.array(0)
    for part, own in parts.items():
      fitting, long = own, 0
      if not isinstance(block, SymbolBlock):
        fitting, long = _fit(own, length - 3)
      elif settings.pairing != "none":  # segments are made of whole sentences
        fitting = [[part for one in each for part in _quarters(one, length - 3)] for each in own]
      counts[f"long_{length}"] += long
      counts[f"{part}_{length}"] = np.zeros(2, int)
      for draw in range(settings.draws if part == "train" else 1):
        seed = [settings.seed, number, length, draw, PARTS.index(part)]
        instances = make_instances(fitting, length=length, pairing=settings.pairing, seed=seed)
        file = directory / file_name(part, length, draw, f"{number:05}")
        counts[f"{part}_{length}"] += write_records(file, instances, vocabulary)
  return counts


def file_name(part: str, length: int, draw: int, number: str) -> str:
  """Returns the name of a block's file; with `*` as the `number`, a pattern for the files of all blocks."""
  return f"{part}-{length}-{draw}-{number}.array_record"


def least_documents(pairing: str) -> int:
  """Returns how many documents a part must have: two if next sentences are taken from another document."""
  return 2 if pairing == "next_sentence" else 1


def _split(documents: list[Sentences], settings: Settings) -> dict[str, list[Sentences]]:
  """Splits documents into those to train on and held-out ones, which are evenly spaced in the corpus."""
  least = least_documents(settings.pairing)
  if len(documents) < 2 * least:
    why = "a next sentence from another document" if least > 1 else "a held-out document"
    remedy = ", or set --config.objective.kind=mlm" if least > 1 else ""
    raise UserError(
      f"the corpus has {len(documents)} document(s) with text, but {why} needs at least {2 * least}; give more in"
      " --config.corpus.path (plain text has blank lines between documents), for an artificial corpus raise"
      f" --config.corpus.lines{remedy}"
    )
  count = min(max(least, round(settings.validation * len(documents))), len(documents) - least)
  held_out = {int((i + 0.5) * len(documents) / count) for i in range(count)}
  return {
    "train": [one for i, one in enumerate(documents) if i not in held_out],
    "validation": [one for i, one in enumerate(documents) if i in held_out],
  }


def _repeated(documents: Sequence[Sentences]) -> np.ndarray:
  """Returns how many tokens are in sentences that occurred before."""
  seen: set[bytes] = set()
  count = 0
  for sentence in itertools.chain.from_iterable(documents):
    content = hashlib.blake2b(sentence.tobytes(), digest_size=8).digest()
    count += len(sentence) * (content in seen)
    seen.add(content)
  return np.array(count)


def _copies(parts: Mapping[str, list[Sentences]]) -> np.ndarray:
  """Returns how many held-out documents are also in training, and how many there are."""
  trained, held_out = (
    [b"\n".join(sentence.tobytes() for sentence in one) for one in parts[part]] for part in PARTS
  )
  known = set(trained)
  return np.array([sum(one in known for one in held_out), len(held_out)])


def _fit(documents: list[Sentences], room: int) -> tuple[list[Sentences], int]:
  """Cuts each sentence that has more than `room` tokens into parts; also returns how many sentences were cut.

  The parts have about a quarter of the room. Pairs of segments are filled until they are too long, and then truncated:
  with short parts, few tokens are lost.
  """
  long = sum(len(sentence) > room for one in documents for sentence in one)
  if not long:
    return documents, 0
  return [[part for sentence in one for part in _parts(sentence, room)] for one in documents], long


def _parts(sentence: Int32[np.ndarray, " tokens"], room: int) -> Sentences:
  """Returns the parts of a sentence, or the sentence itself if there is room for it."""
  return _quarters(sentence, room) if len(sentence) > room else [sentence]


def _quarters(sentence: Int32[np.ndarray, " tokens"], room: int) -> Sentences:
  """Returns parts that each have about a quarter of the room."""
  return np.array_split(sentence, -(-len(sentence) // max(1, room // 4)))
