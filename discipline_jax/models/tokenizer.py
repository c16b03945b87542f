"""Vocabularies of models: the row of the embedding table for each token, symbol and special token."""

import dataclasses
import functools
import hashlib
import importlib.util
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging
from tokenizers import Encoding, Tokenizer

from discipline_jax.errors import UserError
from discipline_jax.models.special_tokens import NAMES, ROLES, find_special_tokens
from discipline_jax.models.symbol_tokenizer import lift_limit

_BERT = NAMES[0]
NUM_SPECIAL_TOKENS = len(ROLES)
_SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model")
# Rows without a token are usual up to this number: tables are padded to a multiple of 8, 64 or 128 rows.
_PADDING = 127


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """A model's vocabulary, in the order of the embedding table.

  The table may have further rows, to which no token leads. They are never read, so they do not count here.

  Attributes:
    tokens: all tokens, in the order of their ids.
    special_ids: ids of all special tokens, in rising order.
    pad_id, cls_id, sep_id: ids of the special tokens for padding, and at the start and end of a segment.
    unk_id: id of the token for unknown symbols.
    mask_id: id of the token that replaces masked tokens.
    encode: function from a text to its ids, without special tokens.
    tokenizer: tokenizer for texts; None for a list of symbols.
  """

  tokens: tuple[str, ...]
  special_ids: tuple[int, ...]
  pad_id: int
  cls_id: int
  sep_id: int
  unk_id: int
  mask_id: int
  encode: Callable[[str], list[int]]
  tokenizer: Tokenizer | None

  def encode_texts(
    self, texts: Sequence[str] | Sequence[tuple[str, str]], max_length: int
  ) -> list[Encoding]:
    """Tokenizes texts or pairs of texts, and adds the model's special tokens.

    Args:
      texts: texts, or pairs of texts.
      max_length: largest number of tokens, special ones included; the longer text of a pair is shortened first.

    Raises:
      UserError: the model has no tokenizer.
    """
    if self.tokenizer is None:
      raise UserError(
        "the model has no tokenizer for text; set --config.model.checkpoint to a model for text"
      )
    self.tokenizer.enable_truncation(max_length)
    try:
      return self.tokenizer.encode_batch(list(texts))
    finally:
      self.tokenizer.no_truncation()

  def symbol_id(self, symbol: str) -> int:
    """Returns the id of a symbol: of the token that the tokenizer makes of it, else of its entry, else of unknown."""
    pieces = self.encode(symbol)
    known = len(pieces) == 1 and pieces[0] != self.unk_id
    return pieces[0] if known else self._entries.get(symbol, self.unk_id)

  @property
  def special(self) -> dict[str, str]:
    """Returns the special token of each role."""
    return {role: self.tokens[getattr(self, f"{role}_id")] for role in ROLES}

  @functools.cached_property
  def _entries(self) -> dict[str, int]:
    return {token: i for i, token in enumerate(self.tokens)}

  def symbol_ids(self, symbols: Sequence[str]) -> np.ndarray:
    """Returns the id of each symbol, as if the symbols were written with blanks between them.

    If the tokenizer does not know a symbol that is an entry of the vocabulary, the entry is used. For example,
    transformers lowercases the symbols of a `vocab.txt` of capital letters, and then does not find them.

    Raises:
      UserError: the tokenizer splits a symbol into several tokens.
    """
    ids = []
    exact = {token: i for i, token in enumerate(self.tokens)}
    for symbol in symbols:
      pieces = self.encode(symbol)
      if pieces == [self.unk_id] and symbol in exact:
        pieces = [exact[symbol]]
      if len(pieces) != 1:
        raise UserError(
          f"the model's tokenizer splits the symbol {symbol!r} into {len(pieces)} tokens;"
          " choose another model or alphabet"
        )
      ids.append(pieces[0])
    return np.array(ids, np.int32)

  def fingerprint(self) -> str:
    """Returns a SHA-256 digest of everything that determines the ids of a text."""
    content = "\n".join(self.tokens) if self.tokenizer is None else self.tokenizer.to_str()
    return hashlib.sha256(content.encode()).hexdigest()

  @property
  def ordinary_ids(self) -> np.ndarray:
    """Returns the ids of all tokens except special ones and `[unusedN]`.

    A vocabulary of more than 2,000 tokens also leaves out its first thousand.
    """
    skip = np.union1d(np.array(self.special_ids, int), self.unused_ids)
    start = 1000 if len(self.tokens) > 2000 else 0
    return np.setdiff1d(np.arange(start, len(self.tokens)), skip).astype(np.int32)

  @property
  def unused_ids(self) -> np.ndarray:
    """Returns the ids of BERT's `[unusedN]` tokens, which do not occur in its pre-training."""
    return np.array(
      [i for i, token in enumerate(self.tokens) if token.startswith("[unused")], np.int32
    )


def load_vocabulary(directory: pathlib.Path, size: int | None = None) -> Vocabulary:
  """Reads the vocabulary and the tokenizer of a checkpoint.

  It tries `tokenizer.json`, then the tokenizer that transformers makes of the files, then `vocab.txt` as a list of
  symbols.

  Args:
    directory: a checkpoint in Hugging Face's format.
    size: number of rows of the embedding table, vocab_size of the config; None accepts any size. Rows at the end may
      have no token, as in a table that is padded to a multiple of 64 rows.

  Raises:
    UserError: there is no tokenizer, it has more tokens than the table has rows, or it lacks special tokens.
  """
  most = 0  # tokens of a tokenizer that was too large
  for read in (_read_tokenizer, _convert_tokenizer):
    tokenizer = read(directory, size)
    ids = tokenizer.get_vocab() if tokenizer is not None else {}
    if ids and (size is None or max(ids.values()) < size):
      return _checked(_vocabulary(_in_order(ids), tokenizer, directory, str(directory)), size)
    most = max(most, len(ids))
  path = directory / "vocab.txt"
  tokens = _lines(path)
  if tokens and (size is None or len(tokens) <= size):
    return _checked(_vocabulary(tokens, None, directory, str(path)), size)
  most = max(most, len(tokens))
  if size is not None and most > size:
    raise UserError(
      f"the tokenizer has {most} tokens, but the embedding table has {size} rows (vocab_size in config.json),"
      f" {directory}; put the tokenizer that these weights were trained with there"
    )
  if any((directory / name).is_file() for name in _SENTENCEPIECE) and not _has_sentencepiece():
    raise UserError(
      f"reading a SentencePiece vocabulary needs the package sentencepiece, {directory}; pip install sentencepiece, or"
      " put a tokenizer.json there"
    )
  rows = (
    ""
    if size is None
    else f" with the {size} entries of its embedding table (vocab_size of config.json)"
  )
  raise UserError(
    f"no tokenizer{rows}, {directory}; put the tokenizer's own tokenizer.json or vocab.txt there"
  )


def _in_order(ids: Mapping[str, int]) -> list[str]:
  """Returns the tokens in the order of their ids; an id that no token has gets the name of an unused token."""
  tokens = [f"[unused row {i}]" for i in range(max(ids.values()) + 1)]
  for token, i in ids.items():
    tokens[i] = token
  return tokens


def _checked(vocabulary: Vocabulary, size: int | None) -> Vocabulary:
  """Warns if many rows of the embedding table have no token, because then the tokenizer may be of another model."""
  missing = 0 if size is None else size - len(vocabulary.tokens)
  if missing > _PADDING:
    logging.warning(
      "%d of the %d rows of the embedding table have no token in the model's tokenizer of %d tokens",
      missing,
      size,
      len(vocabulary.tokens),
    )
  return vocabulary


def _lines(path: pathlib.Path) -> list[str]:
  """Returns the lines of a `vocab.txt`; an empty list if there is no such file."""
  # "utf-8-sig" leaves out the byte-order mark that some editors write.
  tokens = path.read_text(encoding="utf-8-sig").split("\n") if path.is_file() else []
  return tokens[:-1] if tokens and not tokens[-1] else tokens


def _read_tokenizer(directory: pathlib.Path, _: int | None) -> Tokenizer | None:
  path = directory / "tokenizer.json"
  if not path.is_file():
    return None
  try:
    tokenizer = Tokenizer.from_file(str(path))
  except Exception as error:  # the library raises plain Exceptions
    raise UserError(f"not a tokenizer ({error}), {path}; download the checkpoint again") from None
  tokenizer.no_padding()  # some published tokenizers pad and truncate to the lengths of one task
  tokenizer.no_truncation()
  lift_limit(tokenizer)
  return tokenizer


def _convert_tokenizer(directory: pathlib.Path, size: int | None) -> Tokenizer | None:
  """Returns the tokenizer that transformers makes of the files, or None if it does not know all their tokens.

  Of files that it does not understand, transformers makes an almost empty tokenizer.
  """
  from transformers import AutoTokenizer  # takes three seconds, and few checkpoints need it

  try:
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True).backend_tokenizer
    ids = tokenizer.get_vocab()
    if (directory / "vocab.json").is_file():
      listed = json.loads((directory / "vocab.json").read_text(encoding="utf-8")).keys()
    else:
      listed = _lines(directory / "vocab.txt")
  except Exception:  # each tokenizer class raises other errors for files of another class
    return None
  if listed:
    return tokenizer if ids.keys() >= set(listed) and len(ids) > NUM_SPECIAL_TOKENS else None
  return tokenizer if len(ids) >= (size or 0) - _PADDING and len(ids) > 2 * len(ROLES) else None


def _has_sentencepiece() -> bool:
  return importlib.util.find_spec("sentencepiece") is not None


def make_vocabulary(symbols: Sequence[str], size: int) -> Vocabulary:
  """Makes a vocabulary for a model without a checkpoint: special tokens, the task's symbols, and `[unusedN]`.

  Args:
    symbols: the task's symbols.
    size: number of tokens; `[unusedN]` tokens fill it up.

  Raises:
    UserError: `size` is too small for the symbols.
  """
  tokens = [*_BERT, *symbols]
  if size < len(tokens):
    raise UserError(
      f"model.config.vocab_size = {size} is less than the task's {len(symbols)} symbols and"
      f" {len(_BERT)} special tokens; set at least {len(tokens)}"
    )
  tokens += [f"[unused{i}]" for i in range(size - len(tokens))]
  return _vocabulary(tokens, None, None, "the task's symbols")


def _vocabulary(
  tokens: Sequence[str], tokenizer: Tokenizer | None, directory: pathlib.Path | None, source: str
) -> Vocabulary:
  """Makes a vocabulary; without a tokenizer, a text is split into symbols at blanks."""
  ids = {token: i for i, token in enumerate(tokens)}
  special = find_special_tokens(ids, tokenizer, directory, source)
  unknown = ids[special["unk"]]
  # PLUS-TFM's X is an amino acid, too.
  special_ids = {ids[token] for token in special.values() if token != "X"}
  if tokenizer is not None:
    added = tokenizer.get_added_tokens_decoder()
    special_ids |= {i for i, token in added.items() if token.special}

  def encode(text: str) -> list[int]:
    if tokenizer is None:
      return [ids.get(symbol, unknown) for symbol in text.split()]
    return tokenizer.encode(text, add_special_tokens=False).ids

  return Vocabulary(
    tokens=tuple(tokens),
    special_ids=tuple(sorted(special_ids)),
    pad_id=ids[special["pad"]],
    cls_id=ids[special["cls"]],
    sep_id=ids[special["sep"]],
    unk_id=unknown,
    mask_id=ids[special["mask"]],
    encode=encode,
    tokenizer=tokenizer,
  )
