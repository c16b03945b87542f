"""Turns samples into arrays of symbol numbers, padded to one length."""

import dataclasses
import textwrap
from collections.abc import Collection, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int, Int32, UInt, UInt8

from discipline_jax.errors import UserError
from discipline_jax.letters import upper
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.windows import Windows, cut_windows, first_rows

PAD, CLS, SEP = 0, 1, 2
NUM_SPECIAL = 3


@dataclasses.dataclass(frozen=True)
class Features:
  """The arrays of a data set, as they are put on the device.

  The symbols of a text are the tokens that occur in it. A task sees no other tokens, so only their rows of an embedding
  table are trained.

  Attributes:
    symbols: 0 for padding, 1 for [CLS], 2 for [SEP], and from 3 on the symbols of the alphabet or the tokens of the
      text. The token map decides which row of an embedding table a symbol gets.
    segments: 1 for tokens of the second text of a pair, else 0; None if there are no pairs.
    lengths: length of each sample, in tokens.
    groups: number of the group of each sample; by default each sample is a group of its own.
    symbol_ids: token id of each symbol.
    parts: number of samples of each part.
    targets: arrays of the task's answer, by name: what outputs are compared with.
    windows: which samples are windows of one sequence; None if long sequences are cut at the end. `parts` counts the
      sequences then, and all other attributes are about windows.
  """

  symbols: UInt[np.ndarray, "samples length"]
  segments: UInt8[np.ndarray, "samples length"] | None
  lengths: Int32[np.ndarray, " samples"]
  groups: Int32[np.ndarray, " samples"]
  symbol_ids: Int32[np.ndarray, " symbols"]
  parts: dict[str, int]
  targets: dict[str, np.ndarray]
  windows: Windows | None = None

  def sequences(self, samples: Int[np.ndarray, " samples"]) -> Int[np.ndarray, " samples"]:
    """Returns the number of the sequence of each sample: for a window that of the whole, else its own number."""
    return samples if self.windows is None else self.windows.owners[samples]

  def num_sequences(self, samples: Int[np.ndarray, " samples"]) -> int:
    """Returns how many sequences the samples are of; the windows of a sequence follow each other."""
    return len(first_rows(self.sequences(samples)))

  def each_symbol_once(
    self, samples: Int[np.ndarray, " samples"] | slice = slice(None)
  ) -> UInt[np.ndarray, "samples length"]:
    """Returns the symbols of samples; of a window those alone that it decides, and padding in the other places."""
    symbols = self.symbols[samples]
    if self.windows is None:
      return symbols
    places = np.arange(symbols.shape[1])[None]
    first, end = (self.windows.decided[samples] + (symbols[:, :1] == CLS)).T[..., None]
    return np.where((first <= places) & (places < end), symbols, symbols.dtype.type(PAD))

  def of_first(self, samples: Int[np.ndarray, " samples"], number: int) -> Int[np.ndarray, " some"]:
    """Returns the samples that are of the first `number` sequences, with all of their windows."""
    firsts = first_rows(self.sequences(samples))
    return samples[: firsts[number]] if number < len(firsts) else samples


def featurise(task: Task, vocabulary: Vocabulary, max_length: int) -> Features:
  """Reads the samples of a task and encodes them: symbols by a lookup table, text with the model's tokenizer.

  Sequences of more than `max_length` tokens are cut at the end; a warning says how many.

  Raises:
    UserError: from `task.read`, or if the tokenizer has no token for a symbol.
  """
  parts = task.read()
  examples = [example for part in parts.values() for example in part]
  windows = None
  if task.windows:
    examples, windows = _cut(examples, task, max_length)
  if task.alphabet is None:
    symbols, segments, symbol_ids, lengths, cut = _encode_texts(examples, vocabulary, max_length)
  else:
    segments = None
    if examples[0].first is None:
      symbols, lengths, cut = _encode_symbols(
        examples, task.alphabet, max_length, task.add_special_tokens
      )
    else:
      symbols, segments, lengths, cut = _encode_pairs(examples, task.alphabet, max_length)
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
      "%d of %d sequences are longer than task.max_length = %d tokens and were cut%s",
      cut,
      len(examples),
      max_length,
      "; what is cut off is neither trained on, scored nor predicted" * task.answer.of_positions,
    )
  return Features(
    symbols,
    segments,
    lengths,
    np.array(
      [i if example.group is None else example.group for i, example in enumerate(examples)],
      np.int32,
    ),
    symbol_ids,
    {name: len(part) for name, part in parts.items()},
    _targets(task, examples, lengths),
    windows,
  )


def _cut(examples: Sequence[Example], task: Task, max_length: int) -> tuple[list[Example], Windows]:
  """Returns the windows of the sequences of a task, and says how many there are."""
  if task.alphabet is None or task.pairs:
    raise UserError(
      f"task.long = 'windows' is for single sequences of symbols, and a sample of task {task.name} is a text or a pair;"
      " set --config.task.long=cut"
    )
  room = max_length - 2 * task.add_special_tokens
  rows, windows = cut_windows(examples, room, task.stride, task.answer.window)
  sizes = np.bincount(windows.owners)
  if len(rows) > len(examples):
    logging.warning(
      "%d of %d sequences are longer than task.max_length = %d tokens, and are read as %d windows; %s",
      (sizes > 1).sum(),
      len(examples),
      max_length,
      sizes[sizes > 1].sum(),
      "each position is decided by the window in which it has most context"
      if task.answer.of_positions
      else "the mean of their outputs decides",
    )
  return rows, windows


def _targets(task: Task, examples: Sequence[Example], lengths: np.ndarray) -> dict[str, np.ndarray]:
  """Returns the targets of samples, or none if they have no labels."""
  if examples[0].label is None:
    return {}
  return task.answer.targets(examples, Layout(lengths, int(task.add_special_tokens)))


def _encode_symbols(
  examples: Sequence[Example], alphabet: Alphabet, max_length: int, add_special_tokens: bool
) -> tuple[np.ndarray, np.ndarray, int]:
  table = _table(alphabet)
  room = max_length - 2 * add_special_tokens
  whole = np.array([len(example.sequence) for example in examples])
  kept = np.minimum(whole, room)
  symbols = _padding(examples, alphabet, int(kept.max()) + 2 * add_special_tokens)
  start = int(add_special_tokens)
  for row, example, length in zip(symbols, examples, kept, strict=True):
    row[start : start + length] = _numbers(example.sequence[:length], table)
  if add_special_tokens:
    symbols[:, 0] = CLS
    symbols[np.arange(len(symbols)), kept + 1] = SEP
  return symbols, (kept + 2 * add_special_tokens).astype(np.int32), int((whole > room).sum())


def _encode_pairs(
  examples: Sequence[Example], alphabet: Alphabet, max_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
  """Encodes pairs of sequences as `[CLS] first [SEP] second [SEP]`, of which the second one is segment 1.

  If both are too long together, the longer one is cut first, as tokenizers do with `longest_first`.
  """
  table, room = _table(alphabet), max_length - 3
  if room < 2:
    raise UserError(
      f"task.max_length = {max_length} is too short for a pair of sequences; set --config.task.max_length to at least 5"
    )
  firsts = np.array([example.first for example in examples])
  seconds = np.array([len(example.sequence) for example in examples]) - firsts
  shorter = np.minimum(np.minimum(firsts, seconds), room // 2)
  longer = np.minimum(np.maximum(firsts, seconds), room - shorter)
  kept = [np.where(is_short, shorter, longer) for is_short in (firsts <= seconds, firsts > seconds)]
  lengths = (kept[0] + kept[1] + 3).astype(np.int32)
  symbols = _padding(examples, alphabet, int(lengths.max()))
  segments = np.zeros(symbols.shape, np.uint8)
  for row, segment, example, first, second in zip(symbols, segments, examples, *kept, strict=True):
    start, place = example.first, first + 2
    row[0] = CLS
    row[1 : first + 1] = _numbers(example.sequence[:first], table)
    row[first + 1] = row[place + second] = SEP
    row[place : place + second] = _numbers(example.sequence[start : start + second], table)
    segment[place : place + second + 1] = 1
  return symbols, segments, lengths, int((firsts + seconds > room).sum())


def _table(alphabet: Alphabet) -> np.ndarray:
  """Returns the number of each symbol of one letter, by its code point; the last one is that of all others."""
  numbers = {symbol: NUM_SPECIAL + i for i, symbol in enumerate(alphabet.symbols)}
  numbers |= {alias: numbers[symbol] for alias, symbol in alphabet.aliases.items()}
  letters = {ord(symbol): number for symbol, number in numbers.items() if len(symbol) == 1}
  other = NUM_SPECIAL + len(alphabet.symbols) if alphabet.is_open else PAD
  table = np.full(max(letters, default=0) + 2, other, np.int32)
  table[list(letters)] = list(letters.values())
  return table


def _numbers(sequence: str | np.ndarray, table: np.ndarray) -> np.ndarray:
  """Returns the numbers of symbols, given the `_table` of their alphabet."""
  if isinstance(sequence, str):
    codes = np.frombuffer(sequence.encode("utf-32-le"), np.uint32)
    return table[np.minimum(codes, len(table) - 1)]
  return sequence.astype(np.int64) + NUM_SPECIAL


def _padding(examples: Sequence[Example], alphabet: Alphabet, width: int) -> np.ndarray:
  """Returns rows of padding, of the smallest dtype that holds all symbols."""
  dtype = _smallest(NUM_SPECIAL + len(alphabet.symbols) + alphabet.is_open)
  return np.full((len(examples), width), PAD, dtype)


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
  """Returns the token id of each symbol.

  Some symbols of an open alphabet are not tokens of the model, or are the same token as another symbol. They get the
  first ids of ordinary tokens that are still free.
  """
  if alphabet.ids is not None:
    return np.array(alphabet.ids, np.int32)
  if not alphabet.is_open:
    return vocabulary.symbol_ids(alphabet.symbols)
  exact = {token: i for i, token in enumerate(vocabulary.tokens)}
  ids: dict[str, int] = {}
  taken = {*vocabulary.special_ids, vocabulary.unk_id}
  # If the tokenizer reads several symbols as one token, the symbol that is spelt like the token comes first.
  for symbol in sorted(alphabet.symbols, key=lambda symbol: symbol not in exact):
    if exact.get(symbol) == vocabulary.unk_id:  # X is PLUS-TFM's unknown token
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
        f"the task has {len(alphabet.symbols)} symbols, but the model's vocabulary has {len(vocabulary.ordinary_ids)}"
        " ordinary tokens; choose another model.checkpoint or a larger model.config.vocab_size"
      )
    logging.warning(
      "%d of %d symbols are no tokens of the model, or share one, so they use other tokens: %s%s",
      len(others),
      len(alphabet.symbols),
      textwrap.shorten(" ".join(others), 60, placeholder=" ..."),
      _case_hint(others, alphabet, exact.keys()),
    )
    ids |= zip(others, left, strict=False)
  return np.array([*(ids[symbol] for symbol in alphabet.symbols), vocabulary.unk_id], np.int32)


def _case_hint(others: Sequence[str], alphabet: Alphabet, tokens: Collection[str]) -> str:
  """Returns what to do if the model has most of these symbols in the other case, and the task does not."""
  for change, remedy in (
    (
      upper,
      "they are in lower case, and the model has them in upper case: set --config.task.case=upper",
    ),
    (str.lower, "they are in upper case, and the model has them in lower case: write them so"),
  ):
    changed = {change(symbol) for symbol in others} - {*others}
    if 2 * len((changed - {*alphabet.symbols}) & {*tokens}) > len(others):
      return f"; {remedy}"
  return ""


def _check_symbols(symbols: np.ndarray, task: Task, symbol_ids: np.ndarray, unk_id: int) -> None:
  """Raises UserError if a symbol of the data has no token of its own, because training could not see it."""
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
