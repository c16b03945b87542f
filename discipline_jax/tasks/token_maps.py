"""Token maps T: the row of the embedding table that stands for each token id (paper, section 2 of both versions).

`random` is the map of the authors' code for non-text data: ids 1000 and up shuffled, then the first thousand
(BERT's special, `[unusedN]` and punctuation rows) in order. The tokenizer's ids index it, so `[CLS]`, `[SEP]` and
`[PAD]` are mapped too; the attention mask, which is made before, is not.
"""

import pathlib

import numpy as np
from jaxtyping import Int32

from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary

KINDS = ("identity", "shift", "random_shift", "random", "frequent", "unused", "table")
_STREAM = 2  # the same seed also draws the split
_RESERVED = 1000  # rows that the authors' random maps move to the end of the table


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
  """Makes the table T.

  Args:
    kind: one of KINDS.
    vocabulary: of the model.
    symbol_ids: ids of the task's symbols, special tokens left out (`frequent` and `unused` map these alone).
    shift: c of T(i) = (i + c) mod D, for `shift`.
    seed: of `random` and `random_shift`.
    path: of a .npy file of D row numbers, for `table`; `{seed}` in it is replaced by `seed`.
    keep_special: give the special tokens their own rows back, and what took those rows theirs.

  Raises:
    UserError: an unknown kind, an unusable table, or too few rows to choose from.
  """
  size = len(vocabulary.tokens)
  rng = np.random.default_rng([seed, _STREAM])
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
    table = _assign(identity, symbol_ids, _frequent(vocabulary), "words")
  elif kind == "unused":
    table = _assign(identity, symbol_ids, vocabulary.unused_ids, "[unusedN] rows")
  elif kind == "table":
    table = _read_table(path, seed, size)
  else:
    raise UserError(f"token_map.kind = {kind!r} is not one of: {', '.join(KINDS)}")
  table = table.astype(np.int32)
  return _keep_special(table, vocabulary.special_ids) if keep_special else table


def _reserved(vocabulary: Vocabulary) -> np.ndarray:
  size = len(vocabulary.tokens)
  if size > _RESERVED:
    return np.arange(_RESERVED)
  return np.union1d(np.array(vocabulary.special_ids, int), vocabulary.unused_ids).astype(int)


def _frequent(vocabulary: Vocabulary) -> np.ndarray:
  """Ids of words and parts of words, most frequent first.

  WordPiece and BPE number them in that order, after special tokens and single characters.
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
  identity: np.ndarray, symbol_ids: np.ndarray, rows: np.ndarray, what: str
) -> np.ndarray:
  if len(rows) < len(symbol_ids):
    raise UserError(
      f"the model's vocabulary has {len(rows)} {what} for {len(symbol_ids)} symbols; choose another token_map.kind"
    )
  table = identity.copy()
  table[symbol_ids] = rows[: len(symbol_ids)]
  return table


def _read_table(path: str | None, seed: int, size: int) -> np.ndarray:
  if path is None:
    raise UserError(
      "token_map.kind = 'table' needs --config.token_map.path, a .npy file with one row number for each token id"
    )
  file = pathlib.Path(path.replace("{seed}", str(seed))).expanduser()
  try:
    table = np.load(file, allow_pickle=False)
  except (OSError, ValueError, EOFError) as error:
    raise UserError(f"not a readable .npy file ({error}), {file}; set token_map.path") from None
  if (
    not isinstance(table, np.ndarray)
    or table.shape != (size,)
    or not np.issubdtype(table.dtype, np.integer)
  ):
    raise UserError(
      f"a token map of this model is {size} integers, {file} holds"
      f" {getattr(table, 'shape', 'no array')}; set another token_map.path"
    )
  if table.min() < 0 or table.max() >= size:
    raise UserError(f"a row number outside 0..{size - 1}, {file}; set another token_map.path")
  return table


def _keep_special(table: np.ndarray, special_ids: tuple[int, ...]) -> np.ndarray:
  """Swaps, so that a permutation stays one."""
  table = table.copy()
  for special in special_ids:
    table[table == special] = table[special]
    table[special] = special
  return table
