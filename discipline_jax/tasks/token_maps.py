"""Token maps T: for each token id, the row of the embedding table that represents it (paper, section 2, both versions).

`random` is the map of the authors' code for non-text data: the ids from 1000 on in random order, then the first
thousand ids (BERT's special tokens, `[unusedN]` and punctuation) in their own order. The map is applied to every id
that the tokenizer gives, so `[CLS]`, `[SEP]` and `[PAD]` are mapped too. The attention mask is made from the ids before
the map, so it does not change.
"""

import collections
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Int32, Integer

from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched
from discipline_jax.files.places import place
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.streams import TOKEN_MAP

KINDS = ("identity", "shift", "random_shift", "random", "frequent", "unused", "table")

_RESERVED = 1000  # the authors' random maps move so many rows to the end of the table
# Kinds that keep symbols away from the rows of special tokens; the others are as published, or the user's own.
_SPARING = ("identity", "random", "frequent", "unused")
# A model is of the task's discipline if so many of the symbols are its tokens, and so many of its tokens are made of
# the symbols. A protein model has five letters more than the 20 that usually occur, so single letters need less.
_SYMBOLS_SHARE = 0.8
_LETTERS_SHARE = 2 / 3
_TOKENS_SHARE = 0.9
_NUCLEOTIDES = set("ACGTURYSWKMBDHVN-")  # with IUPAC's codes
# Longer tokens of a vocabulary of English: letters of a large alphabet make up most of its other tokens, too.
_ENGLISH = frozenset({"the", "and", "of"})


def choose_kind(vocabulary: Vocabulary, symbols: Sequence[str] | None) -> tuple[str, str]:
  """Returns the kind of map that `auto` stands for, and the reason.

  It is `identity` for text and for a model of the task's own discipline, because there a token already means what it
  meant in pre-training, and otherwise `random`. A model is of the task's discipline if its tokens are the symbols or
  made of the symbols alone: k-mers, letters, or pieces of sequences.

  Args:
    vocabulary: the model's vocabulary.
    symbols: the task's symbols; None for text.
  """
  if symbols is None:
    return "identity", "the task is text"
  exact = {token: i for i, token in enumerate(vocabulary.tokens)}
  own: dict[str, int] = {}
  for symbol in symbols:
    pieces = [exact[symbol]] if symbol in exact else vocabulary.encode(symbol)
    if len(pieces) == 1 and pieces[0] != vocabulary.unk_id:
      own[symbol] = pieces[0]
  missing = [symbol for symbol in symbols if symbol not in own]
  if len(own) < _SYMBOLS_SHARE * len(symbols):
    reason = f"{len(missing)} of {len(symbols)} symbols are not tokens of the model"
    return "random", reason + _hint(vocabulary, symbols)
  skip = {*vocabulary.special_ids, *vocabulary.unused_ids.tolist()}
  tokens = [_plain(token) for i, token in enumerate(vocabulary.tokens) if i not in skip]
  if _ENGLISH.issubset(tokens):
    return "random", "the model's vocabulary is of English text"
  longer_symbols = [one for one in own if len(one) > 1 and not one.lstrip("+-").isdigit()]
  known = "all" if not missing else f"{len(own)} of {len(symbols)}"
  is_nearly_known = len(own) >= _TOKENS_SHARE * len(symbols)  # a table may have a rare symbol
  if is_nearly_known and len({*map(len, symbols)}) > 1 and len(longer_symbols) > 1:
    # Of a large alphabet, such as the atoms of molecules, a task has a small part.
    return (
      "identity",
      f"{known} symbols are tokens of the model, {len(longer_symbols)} of them of several letters",
    )
  names = {*symbols, *(_plain(vocabulary.tokens[i]) for i in own.values())}
  longer = [token for token in tokens if len(token) > 1]
  # A vocabulary of pieces also has the single characters that they are made of, and often many more.
  judged = longer if 2 * len(longer) > len(tokens) else tokens
  share = _share_made_of(names, judged)
  if share < (_TOKENS_SHARE if judged is longer else _LETTERS_SHARE):
    return (
      "random",
      f"only {100 * share:.0f}% of the model's tokens are made of the task's symbols; for a model of the same kind of"
      " sequences set --config.token_map.kind=identity",
    )
  return (
    "identity",
    f"{known} symbols are tokens of the model, and {100 * share:.0f}% of its tokens are made of symbols",
  )


def _hint(vocabulary: Vocabulary, symbols: Sequence[str]) -> str:
  """Returns what to do if the model's tokens are k-mers of these letters, or the letters of the other nucleic acid."""
  tokens = [_plain(vocabulary.tokens[i]) for i in vocabulary.ordinary_ids]
  letters, known = {*symbols}, set().union(*tokens)
  if not tokens or max(map(len, symbols)) > 1:
    return ""
  k, number = max(collections.Counter(map(len, tokens)).items(), key=lambda pair: pair[1])
  if k > 1 and number >= _TOKENS_SHARE * len(tokens) and known >= letters:
    return f"; for its {k}-mers set --config.task.symbols=kmers --config.task.k={k}"
  for own, other in (("U", "T"), ("T", "U")):
    if own in letters and other in known and {*letters, *known} <= _NUCLEOTIDES:
      return f"; the task writes {own}, and the model {other}, for the same base: write it alike"
  return ""


def _share_made_of(symbols: set[str], tokens: Sequence[str]) -> float:
  """Returns the share of tokens that are symbols, one or several in a row, or others of their length."""
  lengths = {len(symbol) for symbol in symbols}
  if len(lengths) > 1:
    one_of = re.compile(f"(?:{'|'.join(map(re.escape, sorted(symbols, key=len, reverse=True)))})+")
    made = [token for token in tokens if one_of.fullmatch(token)]
  else:
    letters = set().union(*symbols)
    made = [
      token
      for token in tokens
      if letters.issuperset(token) and (lengths == {1} or {len(token)} == lengths)
    ]
  return len(made) / max(1, len(tokens))


def _plain(token: str) -> str:
  """Returns a token without the marks that say whether it begins a word."""
  return token.lstrip("#Ġ▁") or token


def make_map(
  kind: str,
  vocabulary: Vocabulary,
  symbol_ids: Int32[np.ndarray, " symbols"],
  *,
  shift: int,
  seed: int,
  path: str | None,
  keep_special: bool,
) -> Int32[np.ndarray, " vocab"]:
  """Returns the table T: the row number for each of the D token ids of the vocabulary.

  Args:
    kind: one of KINDS.
      `identity`: T(i) = i. `shift`: T(i) = (i + c) mod D. `random_shift`: a random permutation of all
      rows. `random`: the authors' map, see above. `frequent` and `unused`: the task's symbols get the rows of the most
      frequent words or of `[unusedN]`, and all other ids keep their own row. `table`: T is read from a file.
    vocabulary: the model's vocabulary.
    symbol_ids: the ids of the task's symbols without special tokens, for `frequent` and `unused`.
    shift: c, for `shift`.
    seed: the seed for `random` and `random_shift`.
    path: a .npy file with D row numbers, for `table`. `{seed}` in it is replaced by `seed`.
    keep_special: True: swap entries of T until every special token has its own row again.

  An ordinary symbol never gets the row of a special token, unless the kind is `shift`, `random_shift` or `table`.

  Raises:
    UserError: the kind is unknown, the file is unusable, or the vocabulary has too few rows of the wanted sort.
  """
  size = len(vocabulary.tokens)
  rng = np.random.default_rng([seed, TOKEN_MAP])
  identity = np.arange(size, dtype=np.int32)
  if kind == "identity":
    table = identity
  elif kind == "shift":
    table = (identity + shift % size) % size
  elif kind == "random_shift":
    table = rng.permutation(identity)
  elif kind == "random":
    reserved = _reserved(vocabulary)
    table = np.concatenate([rng.permutation(np.setdiff1d(identity, reserved)), reserved])
  elif kind == "frequent":
    table = _assign(kind, identity, symbol_ids, _frequent(vocabulary), "words")
  elif kind == "unused":
    table = _assign(kind, identity, symbol_ids, vocabulary.unused_ids, "[unusedN] rows")
  elif kind == "table":
    table = _read_table(path, seed, size)
  else:
    raise UserError(f"token_map.kind = {kind!r} is not one of: {', '.join(KINDS)}")
  table = table.astype(np.int32)
  if kind in _SPARING:
    table = _spare_special(table, symbol_ids, vocabulary.special_ids)
  return _keep_special(table, vocabulary.special_ids) if keep_special else table


def _reserved(vocabulary: Vocabulary) -> Int[np.ndarray, " reserved"]:
  """Returns the ids that `random` keeps in order: the first thousand, or in a smaller table the special and unused."""
  size = len(vocabulary.tokens)
  if size > _RESERVED:
    return np.arange(_RESERVED)
  return np.union1d(np.array(vocabulary.special_ids, int), vocabulary.unused_ids).astype(int)


def _frequent(vocabulary: Vocabulary) -> Int32[np.ndarray, " words"]:
  """Returns the ids of words and parts of words, the most frequent first.

  No sorting is needed: WordPiece and BPE number their tokens in this order, after special tokens and single characters.
  """
  skip = {*vocabulary.special_ids, *vocabulary.unused_ids.tolist()}
  return np.array(
    [
      i
      for i, token in enumerate(vocabulary.tokens)
      if i not in skip and len(token.lstrip("#Ġ▁")) > 1
    ],
    np.int32,
  )


def _assign(
  kind: str,
  identity: Int32[np.ndarray, " vocab"],
  symbol_ids: Int32[np.ndarray, " symbols"],
  rows: Int32[np.ndarray, " rows"],
  what: str,
) -> Int32[np.ndarray, " vocab"]:
  """Returns the identity map in which the symbols have the first of `rows`, which messages call `what`."""
  if len(rows) < len(symbol_ids):
    raise UserError(
      f"token_map.kind = {kind!r} needs {len(symbol_ids)} {what}, one for each symbol of the task, but the model's"
      f" vocabulary has {len(rows)}; choose another token_map.kind"
    )
  table = identity.copy()
  table[symbol_ids] = rows[: len(symbol_ids)]
  return table


def _read_table(path: str | None, seed: int, size: int) -> Integer[np.ndarray, " vocab"]:
  """Reads `size` row numbers from a .npy file."""
  if path is None:
    raise UserError(
      "token_map.kind = 'table' needs --config.token_map.path, a .npy file with one row number for each token id"
    )
  file = fetched(place(path.replace("{seed}", str(seed))))
  try:
    table = np.load(file, allow_pickle=False)
  except (OSError, ValueError, EOFError) as error:
    raise UserError(
      f"not a readable .npy file ({error}), {file}; set another token_map.path"
    ) from None
  if (
    not isinstance(table, np.ndarray)
    or table.shape != (size,)
    or not np.issubdtype(table.dtype, np.integer)
  ):
    raise UserError(
      f"a token map of this model is an array of {size} integers, not {_described(table)}, {file};"
      " set another token_map.path"
    )
  if table.min() < 0 or table.max() >= size:
    raise UserError(
      f"row numbers from {table.min()} to {table.max()} are not within 0..{size - 1}, {file};"
      " set another token_map.path"
    )
  return table


def _described(value: object) -> str:
  return f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else "an .npz archive"


def _spare_special(
  table: Int32[np.ndarray, " vocab"],
  symbol_ids: Int32[np.ndarray, " symbols"],
  special_ids: tuple[int, ...],
) -> Int32[np.ndarray, " vocab"]:
  """Swaps entries so that no ordinary symbol has the row of a special token.

  An entry is swapped with one of a token that the task does not use, or else with one of a special token.
  """
  symbols = np.setdiff1d(symbol_ids, special_ids)
  wrong = symbols[np.isin(table[symbols], special_ids)]
  if not len(wrong):
    return table
  others = np.setdiff1d(np.arange(len(table)), [*symbol_ids, *special_ids])
  free = np.array([*others, *special_ids])
  free = free[~np.isin(table[free], special_ids)][: len(wrong)]
  table = table.copy()
  table[wrong[: len(free)]], table[free] = table[free], table[wrong[: len(free)]]
  return table


def _keep_special(
  table: Int32[np.ndarray, " vocab"], special_ids: tuple[int, ...]
) -> Int32[np.ndarray, " vocab"]:
  """Gives each special token its own row. It swaps entries, so that a permutation stays a permutation."""
  table = table.copy()
  for special in special_ids:
    table[table == special] = table[special]
    table[special] = special
  return table
