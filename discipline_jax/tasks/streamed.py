"""Reads a table window by window, and encodes its rows one by one: no row's encoding depends on the others."""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int, Int32, UInt8
from tokenizers import Encoding

from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.tasks.readers.tables import Row, json_text
from discipline_jax.tasks.symbols import judge_unknown

_WINDOW = 1024  # rows that are held while a table is looked through

# What is wrong with pieces of texts that a model does not know, and what helps.
UNKNOWN_TOKENS = (
  "tokens are not in the model's vocabulary",
  "check that the texts are of the language and the script of the model, and task.sequence_column",
)

Sample = tuple[Row, Sequence[str]]  # a row of a table, and its symbols or its one or two texts


@dataclasses.dataclass(frozen=True)
class Encoded:
  """Holds samples as an encoder reads them.

  Attributes:
    ids: rows of the embedding table, padded with 0.
    segments: 1 for tokens of the second text of a pair; None if there are no pairs.
    lengths: length of each sample, in tokens.
    cut: number of samples that were longer than the model takes, and were cut at the end.
    num_tokens: of texts, the number of tokens, without special ones and what was cut.
    unknown: of texts, what each unknown token stands for, by sample.
  """

  ids: Int32[np.ndarray, "samples length"]
  segments: UInt8[np.ndarray, "samples length"] | None
  lengths: Int32[np.ndarray, " samples"]
  cut: int
  num_tokens: int = 0
  unknown: Sequence[Sequence[str]] = ()


@dataclasses.dataclass(frozen=True)
class Inputs:
  """Says how the inputs of a model are made of the rows of a table.

  Attributes:
    encode: encodes sequences of symbols, or tuples of one or two texts.
    special: number of special tokens before the first symbol, and as many after the last one.
    is_known: whether a symbol is one of the model's; None for texts, whose tokens `encode` counts.
  """

  encode: Callable[[Sequence[Sequence[str]]], Encoded]
  special: int
  is_known: Callable[[str], bool] | None


class _Rows(dict):
  """The row of the embedding table for each symbol, which is looked up when the symbol first occurs."""

  def __init__(self, row_of: Callable[[str], int]):
    super().__init__()
    self._row_of = row_of

  def __missing__(self, symbol: str) -> int:
    self[symbol] = self._row_of(symbol)
    return self[symbol]


def symbol_inputs(
  row_of: Callable[[str], int],
  special: tuple[int, int] | None,
  max_length: int,
  is_known: Callable[[str], bool],
) -> Inputs:
  """Returns how sequences of symbols are encoded.

  Args:
    row_of: gives the row of the embedding table for a symbol; asked once for each symbol.
    special: the rows of [CLS] and [SEP], which stand around a sequence; None if nothing does.
    max_length: longest sample in tokens.
    is_known: see `Inputs`.
  """
  rows = _Rows(row_of)
  start = 0 if special is None else 1

  def encode(sequences: Sequence[Sequence[str]]) -> Encoded:
    whole = np.array([len(own) for own in sequences], np.int32)
    inside = np.minimum(whole, max_length - 2 * start).astype(np.int32)
    ids = np.zeros((len(sequences), int(inside.max()) + 2 * start), np.int32)
    for row, own, length in zip(ids, sequences, inside.tolist(), strict=True):
      row[start : start + length] = [rows[symbol] for symbol in own[:length]]
      if special is not None:
        row[0], row[length + 1] = special
    return Encoded(ids, None, inside + np.int32(2 * start), int((inside < whole).sum()))

  return Inputs(encode, start, is_known)


def text_inputs(vocabulary: Vocabulary, rows: Int[np.ndarray, " vocab"], max_length: int) -> Inputs:
  """Returns how texts, or pairs of texts, are encoded with the model's tokenizer.

  Args:
    vocabulary: has the tokenizer.
    rows: the row of each token.
    max_length: longest sample in tokens.
  """

  def encode(texts: Sequence[Sequence[str]]) -> Encoded:
    pairs = len(texts[0]) == 2
    given: list = [tuple(own) if pairs else own[0] for own in texts]
    encoded = vocabulary.encode_texts(given, max_length)
    lengths = np.array([len(one.ids) for one in encoded], np.int32)
    ids = np.zeros((len(texts), int(lengths.max())), np.int32)
    segments = np.zeros(ids.shape, np.uint8)
    for row, segment, one in zip(ids, segments, encoded, strict=True):
      row[: len(one.ids)] = rows[one.ids]
      segment[: len(one.ids)] = one.type_ids
    cut = sum(bool(one.overflowing) for one in encoded)
    num_tokens = int(lengths.sum()) - sum(sum(one.special_tokens_mask) for one in encoded)
    unknown = [
      _unknown_pieces(own, one, vocabulary.unk_id) for own, one in zip(texts, encoded, strict=True)
    ]
    return Encoded(ids, segments if pairs else None, lengths, cut, num_tokens, unknown)

  return Inputs(encode, 1, None)


def _unknown_pieces(texts: Sequence[str], encoding: Encoding, unknown: int) -> list[str]:
  """Returns the pieces of one or two texts that became the unknown token."""
  if unknown not in encoding.ids:
    return []
  tokens = zip(encoding.ids, encoding.sequence_ids, encoding.offsets, strict=True)
  return [
    texts[number][slice(*span)]
    for token, number, span in tokens
    if token == unknown and number is not None
  ]


@dataclasses.dataclass(frozen=True)
class Scan:
  """Holds what is known of a table after it was read once.

  Attributes:
    rows: number of its rows.
    lengths: how many rows have each length, in tokens.
    cut: number of rows that are cut.
    widths: the most characters of each column that is kept.
    num_symbols: number of all symbols; of texts, of all tokens.
    unknown: how often each of them occurs that the model does not know.
    first_unknown: the first place of one of them.
  """

  rows: int
  lengths: collections.Counter[int]
  cut: int
  widths: list[int]
  num_symbols: int
  unknown: collections.Counter[str]
  first_unknown: str | None

  @property
  def shown(self) -> str:
    """The most frequent symbols that the model does not know, for messages."""
    return " ".join(one for one, _ in self.unknown.most_common(10))[:60]


def scan(samples: Iterable[Sample], inputs: Inputs) -> Scan:
  """Reads all samples once; holds no more than a window of them.

  Args:
    samples: of a table.
    inputs: how they are encoded.
  """
  lengths: collections.Counter[int] = collections.Counter()
  symbols: collections.Counter[str] = collections.Counter()
  unknown: collections.Counter[str] = collections.Counter()
  widths: list[int] = []
  rows, cut, num_tokens, place = 0, 0, 0, None
  is_known = inputs.is_known
  for window in windows(samples, _WINDOW):
    for row, own in window:
      if is_known is not None:
        symbols.update(own)
        if place is None and not all(map(is_known, set(own))):
          place = row.place
    encoded = inputs.encode([own for _, own in window])
    lengths.update(encoded.lengths.tolist())
    num_tokens += encoded.num_tokens
    for (row, _), pieces in zip(window, encoded.unknown, strict=False):
      unknown.update(pieces)
      place = place or (row.place if pieces else None)
    widest = [max(map(len, column)) for column in kept(window)]
    widths = list(map(max, widths, widest)) if rows else widest
    rows, cut = rows + len(window), cut + encoded.cut
  if is_known is not None:
    unknown.update({one: number for one, number in symbols.items() if not is_known(one)})
  return Scan(rows, lengths, cut, widths, symbols.total() + num_tokens, unknown, place)


def check_unknown(
  found: Scan, known: Collection[str], remedies: Mapping[str, str], what: str
) -> None:
  """Warns of symbols, or pieces of texts, that are read as the unknown token; raises UserError if most are.

  Args:
    found: what a first reading of the table found.
    known, remedies, what: see `symbols.judge_unknown`.
  """
  if found.first_unknown is None:
    return
  total, place = found.num_symbols, found.first_unknown
  judge_unknown(found.unknown, total, place, known, remedies, what)
  logging.warning(
    "%d of %d %s (%s), first at %s; they are read as the unknown token; %s",
    found.unknown.total(),
    total,
    what,
    found.shown,
    place,
    remedies["other"],
  )


def windows(samples: Iterable[Sample], size: int) -> Iterator[list[Sample]]:
  """Yields samples in lists of `size`, the last of which may be shorter."""
  samples = iter(samples)
  while window := list(itertools.islice(samples, size)):
    yield window


def kept(window: Sequence[Sample]) -> list[list[str]]:
  """Returns the texts of each column that is kept."""
  columns = zip(*(row.extra for row, _ in window), strict=True)
  return [list(map(json_text, column)) for column in columns]
