"""Turns samples into arrays of symbol numbers, padded to one length."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Float32, Int32, UInt, UInt8

from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.tasks.base import Alphabet, Example, Task

PAD, CLS, SEP = 0, 1, 2
NUM_SPECIAL = 3


@dataclasses.dataclass(frozen=True)
class Features:
  """A data set as it lies on the device.

  The symbols of a text are the tokens that occur in it: a task sees no others, so only their rows of an embedding
  table are trained.

  Attributes:
    symbols: 0 for padding, 1 for [CLS], 2 for [SEP], and from 3 on the alphabet's symbols or the text's tokens.
      Which row of an embedding table a symbol has is the token map's business.
    segments: 1 for the second text of a pair, or None where there are no pairs.
    lengths: of each sample, in tokens.
    labels: numbers of the classes, or values.
    pieces: the number of what each sample is a part of; a sample alone is its own.
    symbol_ids: the token id of each symbol.
    parts: the number of samples of each part.
  """

  symbols: UInt[np.ndarray, "samples length"]
  segments: UInt8[np.ndarray, "samples length"] | None
  lengths: Int32[np.ndarray, " samples"]
  labels: Int32[np.ndarray, " samples"] | Float32[np.ndarray, " samples"]
  pieces: Int32[np.ndarray, " samples"]
  symbol_ids: Int32[np.ndarray, " symbols"]
  parts: dict[str, int]


def featurise(task: Task, vocabulary: Vocabulary, max_length: int) -> Features:
  """Reads a task and encodes it: symbols by table look-up, text with the model's tokenizer.

  Sequences over `max_length` tokens are cut at the end, counted and logged.

  Raises:
    UserError: from `task.read`, or a symbol for which the tokenizer has no token.
  """
  parts = task.read()
  examples = [example for part in parts.values() for example in part]
  if task.alphabet is None:
    symbols, segments, symbol_ids, lengths, cut = _encode_texts(examples, vocabulary, max_length)
  else:
    symbols, lengths, cut = _encode_symbols(examples, task.alphabet, max_length, task.bracketed)
    segments = None
    special = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id]
    ids = _symbol_ids(task.alphabet, vocabulary)
    needed = int(ids.max()) + 1
    if needed > len(vocabulary.tokens):
      raise UserError(
        f"the symbols of task {task.name} take {needed} ids, but the model's vocabulary has"
        f" {len(vocabulary.tokens)}; choose another model.checkpoint or a larger model.config.vocab_size"
      )
    if not task.alphabet.is_open:
      _check_symbols(symbols, task, ids, vocabulary.unk_id)
    symbol_ids = np.concatenate([special, ids]).astype(np.int32)
  if cut:
    logging.warning(
      "%d of %d sequences are longer than task.max_length = %d tokens and were cut",
      cut,
      len(examples),
      max_length,
    )
  return Features(
    symbols,
    segments,
    lengths,
    np.array([example.label for example in examples], np.int32 if task.labels else np.float32),
    np.array(
      [i if example.piece is None else example.piece for i, example in enumerate(examples)],
      np.int32,
    ),
    symbol_ids,
    {name: len(part) for name, part in parts.items()},
  )


def _encode_symbols(
  examples: Sequence[Example], alphabet: Alphabet, max_length: int, bracketed: bool
) -> tuple[np.ndarray, np.ndarray, int]:
  numbers = {symbol: NUM_SPECIAL + i for i, symbol in enumerate(alphabet.symbols)}
  numbers |= {alias: numbers[symbol] for alias, symbol in alphabet.aliases.items()}
  letters = {ord(symbol): number for symbol, number in numbers.items() if len(symbol) == 1}
  other = NUM_SPECIAL + len(alphabet.symbols) if alphabet.is_open else PAD
  table = np.full(max(letters, default=0) + 2, other, np.int32)
  table[list(letters)] = list(letters.values())
  room = max_length - 2 * bracketed
  whole = np.array([len(example.sequence) for example in examples])
  kept = np.minimum(whole, room)
  width = int(kept.max()) + 2 * bracketed
  dtype = _smallest(NUM_SPECIAL + len(alphabet.symbols) + alphabet.is_open)
  symbols: np.ndarray = np.full((len(examples), width), PAD, dtype)
  start = int(bracketed)
  for row, example, length in zip(symbols, examples, kept, strict=True):
    if isinstance(example.sequence, str):
      codes = np.frombuffer(example.sequence[:length].encode("utf-32-le"), np.uint32)
      row[start : start + length] = table[np.minimum(codes, len(table) - 1)]
    else:
      row[start : start + length] = example.sequence[:length].astype(dtype) + NUM_SPECIAL
  if bracketed:
    symbols[:, 0] = CLS
    symbols[np.arange(len(symbols)), kept + 1] = SEP
  return symbols, (kept + 2 * bracketed).astype(np.int32), int((whole > room).sum())


def _encode_texts(
  examples: Sequence[Example], vocabulary: Vocabulary, max_length: int
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray, np.ndarray, int]:
  pairs = examples[0].second is not None
  texts: list = [(one.sequence, one.second) if pairs else one.sequence for one in examples]
  encoded = vocabulary.encode_texts(texts, max_length)
  lengths = np.array([len(one.ids) for one in encoded], np.int32)
  ids = np.full((len(examples), int(lengths.max())), vocabulary.pad_id, np.int32)
  segments = np.zeros(ids.shape, np.uint8)
  for row, segment, one in zip(ids, segments, encoded, strict=True):
    row[: len(one.ids)] = one.ids
    segment[: len(one.ids)] = one.type_ids
  special = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id]
  others = np.setdiff1d(ids, special)
  symbol_ids = np.concatenate([special, others]).astype(np.int32)
  number: np.ndarray = np.zeros(len(vocabulary.tokens), _smallest(len(symbol_ids)))
  number[symbol_ids] = np.arange(len(symbol_ids))
  cut = sum(bool(one.overflowing) for one in encoded)
  return number[ids], segments if pairs else None, symbol_ids, lengths, cut


def _smallest(count: int) -> type:
  return next(
    dtype for dtype in (np.uint8, np.uint16, np.uint32) if count <= np.iinfo(dtype).max + 1
  )


def _symbol_ids(alphabet: Alphabet, vocabulary: Vocabulary) -> np.ndarray:
  """The token id of each symbol.

  Symbols of an open alphabet that are no token, or the same as another one, take the first ids of ordinary tokens that
  are left.
  """
  if alphabet.ids is not None:
    return np.array(alphabet.ids, np.int32)
  if not alphabet.is_open:
    return vocabulary.symbol_ids(alphabet.symbols)
  exact = {token: i for i, token in enumerate(vocabulary.tokens)}
  ids: dict[str, int] = {}
  taken = {*vocabulary.special_ids, vocabulary.unk_id}
  # Of symbols that the tokenizer takes for the same the one that is the token goes first.
  for symbol in sorted(alphabet.symbols, key=lambda symbol: symbol not in exact):
    if exact.get(symbol) == vocabulary.unk_id:  # PLUS-TFM's X is what it does not know
      ids[symbol] = vocabulary.unk_id
      continue
    pieces = vocabulary.encode(symbol)
    own = pieces[0] if len(pieces) == 1 and pieces[0] not in taken else exact.get(symbol)
    if own is not None and own not in taken:
      ids[symbol] = own
      taken.add(own)
  others = [symbol for symbol in alphabet.symbols if symbol not in ids]
  if others:
    left = np.setdiff1d(vocabulary.ordinary_ids, list(ids.values())).tolist()
    if len(left) < len(others):
      raise UserError(
        f"the task has {len(alphabet.symbols)} symbols, but the model's vocabulary {len(vocabulary.ordinary_ids)}"
        " ordinary tokens; choose another model.checkpoint or a larger model.config.vocab_size"
      )
    logging.warning(
      "%d of %d symbols are no tokens of the model, and are given other ones: %s",
      len(others),
      len(alphabet.symbols),
      " ".join(others)[:60],
    )
    ids |= zip(others, left, strict=False)
  return np.array([*(ids[symbol] for symbol in alphabet.symbols), vocabulary.unk_id], np.int32)


def _check_symbols(symbols: np.ndarray, task: Task, symbol_ids: np.ndarray, unk_id: int) -> None:
  """Raises UserError where a symbol of the data has no token of its own: training would see nothing of it."""
  assert task.alphabet is not None
  present = np.flatnonzero(np.bincount(symbols.ravel(), minlength=NUM_SPECIAL))
  unknown = [
    task.alphabet.symbols[i]
    for i in present[present >= NUM_SPECIAL] - NUM_SPECIAL
    if symbol_ids[i] == unk_id and task.alphabet.symbols[i] != task.alphabet.unknown_symbol
  ]
  if unknown:
    raise UserError(
      f"the model's tokenizer has no token for {', '.join(unknown)} of task {task.name};"
      " choose another model.checkpoint"
    )
