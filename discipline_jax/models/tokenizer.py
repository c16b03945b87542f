"""The vocabulary of a checkpoint: which row of the embedding table a symbol or a special token has."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from discipline_jax.errors import UserError

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # BERT's names
_ROBERTA_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")  # in the same order


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """Tokens in the order of the embedding table.

  Attributes:
    tokens: by id.
    special_ids: ids of all special tokens.
    pad_id, cls_id, sep_id: ids of the three special tokens that a classifier's input is made with.
    unk_id: id of what is not in the vocabulary.
    encode: text -> ids, without special tokens.
  """

  tokens: tuple[str, ...]
  special_ids: tuple[int, ...]
  pad_id: int
  cls_id: int
  sep_id: int
  unk_id: int
  encode: Callable[[str], list[int]]

  def symbol_ids(self, symbols: Sequence[str]) -> np.ndarray:
    """The id of each symbol as a token of its own, as if symbols were written with blanks between them.

    Raises:
      UserError: the tokenizer cuts a symbol into several tokens.
    """
    ids = []
    for symbol in symbols:
      pieces = self.encode(symbol)
      if len(pieces) != 1:
        raise UserError(
          f"the symbol {symbol!r} is {len(pieces)} tokens for this model's tokenizer, not one;"
          " choose another model or alphabet"
        )
      ids.append(pieces[0])
    return np.array(ids, np.int32)

  @property
  def unused_ids(self) -> np.ndarray:
    """Ids of BERT's `[unusedN]` rows, which no text of its pre-training touched."""
    return np.array(
      [i for i, token in enumerate(self.tokens) if token.startswith("[unused")], np.int32
    )


def load_vocabulary(directory: pathlib.Path, size: int) -> Vocabulary:
  """Reads the tokenizer of a checkpoint.

  Where transformers does not understand the files, which it shows only by a tokenizer of the wrong size,
  `vocab.txt` is taken as the list of symbols in id order.

  Args:
    directory: in Hugging Face's format.
    size: vocab_size of the config.

  Raises:
    UserError: no tokenizer whose vocabulary has `size` entries.
  """
  from transformers import (
    AutoTokenizer,
  )  # two seconds, and a run without a checkpoint does not need it

  try:
    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
  except Exception:  # each tokenizer class fails in its own way on files of another
    tokenizer = None
  if tokenizer is not None and len(tokenizer) == size and tokenizer.cls_token_id is not None:
    return Vocabulary(
      tokens=tuple(tokenizer.convert_ids_to_tokens(list(range(size)))),
      special_ids=tuple(sorted(tokenizer.all_special_ids)),
      pad_id=tokenizer.pad_token_id,
      cls_id=tokenizer.cls_token_id,
      sep_id=tokenizer.sep_token_id,
      unk_id=tokenizer.unk_token_id,
      encode=lambda text: tokenizer(text, add_special_tokens=False).input_ids,
    )
  path = directory / "vocab.txt"
  tokens = path.read_text(encoding="utf-8").split("\n") if path.is_file() else []
  tokens = tokens[:-1] if tokens and not tokens[-1] else tokens
  special = next(
    (names for names in (_SPECIAL, _ROBERTA_SPECIAL) if set(names) <= set(tokens)), None
  )
  if len(tokens) != size or special is None:
    raise UserError(
      f"no tokenizer with the {size} entries of config.json, {directory}; put the tokenizer's own tokenizer.json"
      " or vocab.txt there"
    )
  return _symbol_table(tokens, special)


def make_vocabulary(symbols: Sequence[str], size: int) -> Vocabulary:
  """A vocabulary for a model without a tokenizer: five special tokens, the task's symbols, `[unusedN]` rows.

  Raises:
    UserError: `size` is too small for the symbols.
  """
  tokens = [*_SPECIAL, *symbols]
  if size < len(tokens):
    raise UserError(
      f"model.config.vocab_size = {size} is less than the task's {len(symbols)} symbols and"
      f" {len(_SPECIAL)} special tokens; set at least {len(tokens)}"
    )
  return _symbol_table(tokens + [f"[unused{i}]" for i in range(size - len(tokens))], _SPECIAL)


def _symbol_table(tokens: Sequence[str], special: Sequence[str]) -> Vocabulary:
  ids = {token: i for i, token in enumerate(tokens)}
  pad, unknown, cls, sep, _ = special
  return Vocabulary(
    tokens=tuple(tokens),
    special_ids=tuple(sorted(ids[token] for token in special)),
    pad_id=ids[pad],
    cls_id=ids[cls],
    sep_id=ids[sep],
    unk_id=ids[unknown],
    encode=lambda text: [ids.get(symbol, ids[unknown]) for symbol in text.split()],
  )
