"""Makes the vocabulary of a corpus of sequences, from its symbols or from a model."""

import collections
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from absl import logging
from tokenizers import Tokenizer

from discipline_jax.corpora.sequences import Symbols
from discipline_jax.corpora.tally import Tally
from discipline_jax.corpora.text import Document
from discipline_jax.corpora.vocabulary import SPECIAL_TOKENS, word_level
from discipline_jax.letters import both_cases, thymine_and_uracil, upper
from discipline_jax.models.tokenizer import Vocabulary

_MOST = 1 << 16  # tokens, if the config does not say


@dataclasses.dataclass(frozen=True)
class SymbolCounter:
  """Counts the symbols of sequences.

  Attributes:
    symbols: how sequences are cut into symbols.
  """

  symbols: Symbols

  def count(self, documents: Iterable[Document]) -> Tally:
    """Counts the symbols of some sequences."""
    counts: collections.Counter[str] = collections.Counter()
    for document in documents:
      counts.update(self.symbols.split(document.paragraphs[0]))
    return Tally(counts)


def tokenizer_of_symbols(
  counts: Mapping[str, int],
  symbols: Symbols,
  given: Vocabulary | None,
  special: Sequence[str],
  most: int | None,
) -> Tokenizer:
  """Returns a tokenizer whose tokens are symbols with blanks between them.

  A tokenizer of a model is returned as it is if it makes of each symbol the token that `Vocabulary.symbol_id` gives.
  Others do not: for example, one that changes capitals into small letters.

  Args:
    counts: how often each symbol occurs in the corpus.
    symbols: how sequences are cut into symbols.
    given: the vocabulary of a model, or None to make one of the symbols that occur.
    special: its tokens for padding, unknown symbols, the start, the end and masks.
    most: the most tokens of a vocabulary that is made; the rarest symbols are left out. None means 65,536.
  """
  known = {} if given is None else {symbol: given.symbol_id(symbol) for symbol in counts}
  if symbols.kind != "words":
    _warn_of_letters(counts, known)
  is_letters = symbols.kind == "characters"
  if given is None:
    frequent = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
    kept = sorted(frequent[: max(0, (most or _MOST) - len(SPECIAL_TOKENS))])
    return word_level([*SPECIAL_TOKENS, *kept], SPECIAL_TOKENS, letters=is_letters)
  if given.tokenizer is not None and all(
    number == given.unk_id or given.encode(symbol) == [number] for symbol, number in known.items()
  ):
    return given.tokenizer
  is_letters = is_letters and all(len(given.tokens[i]) == 1 for i in given.ordinary_ids)
  return word_level(given.tokens, special, letters=is_letters)


def _warn_of_letters(symbols: Collection[str], ids: Mapping[str, int]) -> None:
  """Warns of letters that may be meant to be the same.

  Args:
    symbols: the symbols that occur.
    ids: their ids in the vocabulary of a model, in which both cases of a letter may be one; empty if there is none.
  """
  small = [one for one in both_cases(symbols) if one not in ids or ids[one] != ids.get(upper(one))]
  if small:
    logging.warning(
      "The corpus has small letters and capitals, such as %s and %s, which are different symbols; to read all as"
      " capitals, set --config.corpus.case=upper",
      small[0],
      upper(small[0]),
    )
  if thymine_and_uracil(symbols):
    logging.warning(
      "The corpus has both T and U, the same base in DNA and RNA, as two symbols; write them alike"
    )
