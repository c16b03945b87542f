"""Vocabularies of models: the row of the embedding table for each token, symbol and special token."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
from tokenizers import Encoding, Tokenizer

from discipline_jax.errors import UserError

# The names of the same five special tokens in the families' vocabularies.
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
_ALBERT = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
# PLUS-TFM has no [UNK], so X, the unknown amino acid, takes its place.
_PLUS = ("[PAD]", "X", "[CLS]", "[SEP]", "[MASK]")
NUM_SPECIAL_TOKENS = len(_BERT)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """A model's vocabulary, in the order of the embedding table.

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
  symbols. A tokenizer must have `size` tokens, because transformers returns an almost empty one for files that it does
  not understand.

  Args:
    directory: a checkpoint in Hugging Face's format.
    size: vocab_size of the config; None accepts any size.

  Raises:
    UserError: there is no tokenizer with `size` tokens, or it lacks the special tokens.
  """
  for read in (_read_tokenizer, _convert_tokenizer):
    tokenizer = read(directory)
    ids = tokenizer.get_vocab() if tokenizer is not None else {}
    wanted = len(ids) if size is None else size
    if ids and tokenizer is not None and sorted(ids.values()) == list(range(wanted)):
      return _vocabulary(sorted(ids, key=ids.__getitem__), tokenizer, str(directory))
  path = directory / "vocab.txt"
  tokens = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
  tokens = tokens[:-1] if tokens and not tokens[-1] else tokens
  if not tokens or len(tokens) != (size or len(tokens)):
    entries = "" if size is None else f" with the {size} entries of config.json"
    raise UserError(
      f"no tokenizer{entries}, {directory}; put the tokenizer's own tokenizer.json"
      " or vocab.txt there"
    )
  return _vocabulary(tokens, None, str(path))


def _read_tokenizer(directory: pathlib.Path) -> Tokenizer | None:
  path = directory / "tokenizer.json"
  if not path.is_file():
    return None
  try:
    tokenizer = Tokenizer.from_file(str(path))
  except Exception as error:  # the library raises plain Exceptions
    raise UserError(f"not a tokenizer ({error}), {path}; download the checkpoint again") from None
  tokenizer.no_padding()  # some published tokenizers pad and truncate to the lengths of one task
  tokenizer.no_truncation()
  return tokenizer


def _convert_tokenizer(directory: pathlib.Path) -> Tokenizer | None:
  from transformers import AutoTokenizer  # takes three seconds, and few checkpoints need it

  try:
    return AutoTokenizer.from_pretrained(directory, local_files_only=True).backend_tokenizer
  except Exception:  # each tokenizer class raises other errors for files of another class
    return None


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
  return _vocabulary(tokens, None, "the task's symbols")


def _vocabulary(tokens: Sequence[str], tokenizer: Tokenizer | None, source: str) -> Vocabulary:
  """Makes a vocabulary; without a tokenizer, a text is split into symbols at blanks."""
  ids = {token: i for i, token in enumerate(tokens)}
  names = next(
    (names for names in (_BERT, _ROBERTA, _ALBERT, _PLUS) if ids.keys() >= set(names)), None
  )
  if names is None:
    raise UserError(
      f"no special tokens {' '.join(_BERT)} or {' '.join(_ROBERTA)}, {source}; give the model's own tokenizer"
    )
  pad, unknown, cls, sep, mask = (ids[name] for name in names)

  def encode(text: str) -> list[int]:
    if tokenizer is None:
      return [ids.get(symbol, unknown) for symbol in text.split()]
    return tokenizer.encode(text, add_special_tokens=False).ids

  return Vocabulary(
    tokens=tuple(tokens),
    special_ids=tuple(sorted(ids[name] for name in names if name != "X")),
    pad_id=pad,
    cls_id=cls,
    sep_id=sep,
    unk_id=unknown,
    mask_id=mask,
    encode=encode,
    tokenizer=tokenizer,
  )
