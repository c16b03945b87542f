"""The vocabulary of a checkpoint: which row of the embedding table a symbol or a special token has."""

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
# PLUS-TFM has no token for what it does not know but X, which is an amino acid that is not known.
_PLUS = ("[PAD]", "X", "[CLS]", "[SEP]", "[MASK]")
NUM_SPECIAL_TOKENS = len(_BERT)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """Tokens in the order of the embedding table.

  Attributes:
    tokens: by id.
    special_ids: ids of all special tokens.
    pad_id, cls_id, sep_id: ids of the three special tokens that a classifier's input is made with.
    unk_id: id of what is not in the vocabulary.
    mask_id: id of what a masked language model is shown in place of a token.
    encode: text -> ids, without special tokens.
    tokenizer: the tokenizer of texts; None for a mere list of symbols.
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
    """Texts or pairs of texts with the model's special tokens; the longer one of a pair is cut first.

    Raises:
      UserError: the model has no tokenizer.
    """
    if self.tokenizer is None:
      raise UserError(
        "the model has no tokenizer for text; set --config.model.checkpoint to a model of text"
      )
    self.tokenizer.enable_truncation(max_length)
    try:
      return self.tokenizer.encode_batch(list(texts))
    finally:
      self.tokenizer.no_truncation()

  def symbol_ids(self, symbols: Sequence[str]) -> np.ndarray:
    """The id of each symbol as a token of its own, as if symbols were written with blanks between them.

    A symbol that the tokenizer does not know, but that is a token as it stands, is that token: what transformers makes
    of a mere `vocab.txt` of capital letters takes them for small ones.

    Raises:
      UserError: the tokenizer cuts a symbol into several tokens.
    """
    ids = []
    exact = {token: i for i, token in enumerate(self.tokens)}
    for symbol in symbols:
      pieces = self.encode(symbol)
      if pieces == [self.unk_id] and symbol in exact:
        pieces = [exact[symbol]]
      if len(pieces) != 1:
        raise UserError(
          f"the symbol {symbol!r} is {len(pieces)} tokens for this model's tokenizer, not one;"
          " choose another model or alphabet"
        )
      ids.append(pieces[0])
    return np.array(ids, np.int32)

  def fingerprint(self) -> str:
    """A digest of all that makes ids of texts."""
    content = "\n".join(self.tokens) if self.tokenizer is None else self.tokenizer.to_str()
    return hashlib.sha256(content.encode()).hexdigest()

  @property
  def ordinary_ids(self) -> np.ndarray:
    """Ids of all tokens but the special, the `[unusedN]`, and, in a large vocabulary, the first thousand."""
    skip = np.union1d(np.array(self.special_ids, int), self.unused_ids)
    start = 1000 if len(self.tokens) > 2000 else 0
    return np.setdiff1d(np.arange(start, len(self.tokens)), skip).astype(np.int32)

  @property
  def unused_ids(self) -> np.ndarray:
    """Ids of BERT's `[unusedN]` rows, which no text of its pre-training touched."""
    return np.array(
      [i for i, token in enumerate(self.tokens) if token.startswith("[unused")], np.int32
    )


def load_vocabulary(directory: pathlib.Path, size: int | None = None) -> Vocabulary:
  """Reads the tokenizer of a checkpoint.

  It is `tokenizer.json` where there is one, else what transformers makes of the files, else `vocab.txt` as a list
  of symbols in id order. A tokenizer counts only if it has as many tokens as the model has rows: transformers
  makes an empty one of files that it does not understand.

  Args:
    directory: in Hugging Face's format.
    size: vocab_size of the config; unset, whatever `tokenizer.json` or `vocab.txt` has.

  Raises:
    UserError: no tokenizer whose vocabulary has `size` entries.
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
  except Exception as error:  # the library raises bare ones
    raise UserError(f"not a tokenizer ({error}), {path}; download the checkpoint again") from None
  tokenizer.no_padding()  # some publish theirs with the lengths of one task
  tokenizer.no_truncation()
  return tokenizer


def _convert_tokenizer(directory: pathlib.Path) -> Tokenizer | None:
  from transformers import AutoTokenizer  # takes three seconds, and few checkpoints need it

  try:
    return AutoTokenizer.from_pretrained(directory, local_files_only=True).backend_tokenizer
  except Exception:  # each tokenizer class fails in its own way on files of another
    return None


def make_vocabulary(symbols: Sequence[str], size: int) -> Vocabulary:
  """A vocabulary for a model without a tokenizer: five special tokens, the task's symbols, `[unusedN]` rows.

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
  """Without a tokenizer, a text is symbols with blanks between them."""
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
