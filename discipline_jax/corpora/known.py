"""Checks that a vocabulary knows a corpus, and that the corpus does not mostly repeat itself.

A tokenizer of a text's language leaves less than 0.1% of it unknown, and one of a related alphabet some percent. Where
more than a tenth is unknown, a low loss says nothing, because the unknown token is easy to predict.
"""

import collections
import json
import lzma
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

from discipline_jax.corpora.blocks import Block, LinesBlock, Settings, SymbolBlock
from discipline_jax.corpora.sequences import Symbols, overlap
from discipline_jax.corpora.text import Document
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary

# Shares of unknown tokens, above which a corpus is refused, or a warning is logged.
_MOST_UNKNOWN, _SAID_UNKNOWN = 0.1, 0.01
# Shares above which a warning is logged: of held-out documents that training also has, of tokens in repeated sentences.
_MOST_COPIES, _MOST_REPEATED = 0.05, 0.5
# A text repeats itself if its compressed size is less than this share of its unigram entropy.
_LEAST_NEWS = 0.1
_SAMPLE = 300_000  # letters that are looked at before a corpus is prepared
_LONG_WORD = 20  # letters; a longer word is rather a sequence
_LEAST_TOKENS = 2000  # a shorter sample cannot be compressed well


def check_sample(
  block: Block, settings: Settings, vocabulary: Vocabulary, source: str | None
) -> None:
  """Looks at a sample of a corpus before it is prepared.

  Args:
    block: the first block.
    settings: the settings of the instances.
    vocabulary: the vocabulary of the corpus.
    source: the model that the vocabulary comes from, or None if it was made from the corpus.

  Raises:
    UserError: the vocabulary does not know the text. The message names the reason.
  """
  if isinstance(block, LinesBlock) or not block.documents:
    return
  documents = _sample(block.documents)
  if isinstance(block, SymbolBlock):
    _check_blanks(documents, block.symbols)
    words = [word for one in documents for word in block.symbols.split(one.paragraphs[0])]
    ids = [
      number
      for one in SymbolBlock(documents, block.symbols).sentences(settings, vocabulary)
      for number in one
    ]
    unknown = [
      word
      for word, number in zip(words, np.concatenate(ids), strict=True)
      if number == vocabulary.unk_id
    ]
    shares = [len(unknown) / max(1, len(words))]
    reason = _reason_of_symbols(unknown, vocabulary, source)
    step = block.symbols.k or (_say_overlap(documents) if block.symbols.kind == "words" else 1)
  else:
    ids, unknown, shares = _encode(documents, vocabulary)
    reason = _reason_of_words(unknown, vocabulary, source)
    step = _say_overlap(documents)
  if max(shares) > _MOST_UNKNOWN:
    raise UserError(
      f"{100 * max(shares):.0f}% of the corpus is unknown to its vocabulary ({documents[0].place}): {reason}"
    )
  if _news(ids, step) < _LEAST_NEWS:
    logging.warning(
      "The corpus mostly repeats itself (%s): a low loss shows memory rather than skill",
      documents[0].place,
    )


def _check_blanks(documents: Sequence[Document], symbols: Symbols) -> None:
  """Raises UserError if the sequences have no blanks between their words, so that each would be one symbol."""
  whole = [one for one in documents if symbols.kind == "words" and " " not in one.paragraphs[0]]
  long = [one for one in whole if len(one.paragraphs[0]) > _LONG_WORD]
  if len(long) > len(documents) / 2:
    raise UserError(
      f"the sequences have no blanks between symbols, {long[0].place}; set --config.corpus.symbols=characters or kmers"
    )


def check_statistics(statistics: Mapping, source: str | None) -> None:
  """Looks at the statistics of a whole prepared corpus.

  Raises:
    UserError: a large share of it is unknown, or all its tokens are the same.
  """
  unknown, types = statistics["unknown"], statistics["types"]
  where = source or "made from it"
  if unknown > _MOST_UNKNOWN:
    raise UserError(
      f"{100 * unknown:.0f}% of the corpus's tokens are unknown to its vocabulary, {where}; give a vocabulary of such"
      " texts, or unset corpus.vocabulary and set --config.model.config.vocab_size to train one; for sequences set"
      " --config.corpus.symbols"
    )
  if types - (unknown > 0) < 2:
    raise UserError(
      "the corpus has a single type of token, so there is nothing to predict; give another corpus.path, or another"
      " corpus.symbols or corpus.vocabulary"
    )
  if unknown > _SAID_UNKNOWN:
    logging.warning(
      "%.1f%% of the corpus's tokens are unknown to its vocabulary, %s", 100 * unknown, where
    )
  copies, held_out = statistics.get("copies", (0, 1))
  if copies > _MOST_COPIES * held_out:
    logging.warning(
      "%d of %d held-out documents are in the training part, too, so the held-out loss is partly measured on known"
      " text; remove the copies",
      copies,
      held_out,
    )
  if statistics.get("repeated", 0) > _MOST_REPEATED:
    logging.warning(
      "%.0f%% of the corpus's tokens are in sentences that occurred before: a low loss shows memory rather than skill",
      100 * statistics["repeated"],
    )


def _sample(documents: Sequence[Document]) -> list[Document]:
  """Returns documents that are evenly spaced in a block, and have about `_SAMPLE` letters in all."""
  letters = sum(len(text) for one in documents for text in one.paragraphs)
  kept, left = [], _SAMPLE
  for document in documents[:: max(1, letters // _SAMPLE)]:
    paragraphs = []
    for text in document.paragraphs:
      if left > 0:
        paragraphs.append(text[:left])
        left -= len(text)
    if paragraphs:
      kept.append(Document(document.place, tuple(paragraphs)))
  return kept


def _encode(
  documents: Sequence[Document], vocabulary: Vocabulary
) -> tuple[list[np.ndarray], list[str], list[float]]:
  """Returns the ids of each paragraph, the unknown words, and the shares of unknown tokens and of their letters."""
  assert vocabulary.tokenizer is not None
  texts = [text for one in documents for text in one.paragraphs]
  ids, unknown, tokens, letters = [], [], 0, 0
  for text, encoding in zip(
    texts, vocabulary.tokenizer.encode_batch(texts, add_special_tokens=False), strict=True
  ):
    ids.append(np.array(encoding.ids, np.int32))
    tokens += len(encoding.ids)
    letters += sum(end - start for start, end in encoding.offsets)
    places = zip(encoding.ids, encoding.offsets, strict=True)
    unknown += [text[start:end] for number, (start, end) in places if number == vocabulary.unk_id]
  shares = [len(unknown) / max(1, tokens), sum(map(len, unknown)) / max(1, letters)]
  return ids, unknown, shares


def _reason_of_words(unknown: Sequence[str], vocabulary: Vocabulary, source: str | None) -> str:
  """Returns why a tokenizer does not know most of these words, and what to do."""
  assert vocabulary.tokenizer is not None
  model = json.loads(vocabulary.tokenizer.to_str())["model"]
  limit = model.get("max_input_chars_per_word")
  tokens = set(vocabulary.tokens)
  known_letters = set("".join(vocabulary.tokens))
  letters: collections.Counter = collections.Counter()
  strange: collections.Counter = collections.Counter()
  for word in unknown:
    if limit and len(word) > limit:
      kind = "long"
    elif word in tokens:
      kind = "cased"
    else:
      lost = [
        letter for letter in word if not {letter, letter.lower(), letter.upper()} & known_letters
      ]
      kind = "strange" if lost else "other"
      strange.update(lost)
    letters[kind] += len(word)
  most = letters.most_common(1)[0][0] if letters else "other"
  example = next((word for word in unknown if most != "long" or len(word) > limit), "")[:20]
  train = (
    "unset corpus.vocabulary and set --config.model.config.vocab_size to train one on the corpus"
  )
  if most == "long":
    return (
      f"words of more than {limit} letters, such as {example}..., are unknown to WordPiece; if they are sequences, set"
      " --config.corpus.symbols=characters or kmers"
    )
  source = source or "the corpus"
  if most == "cased":
    return (
      f"{example} is a token of {source}, but its tokenizer changes the case of texts; set"
      " --config.corpus.symbols=words if all words are tokens, or switch that off in its files (do_lower_case in"
      " tokenizer_config.json, or the normalizer in tokenizer.json)"
    )
  if most == "strange":
    names = " ".join(letter for letter, _ in strange.most_common(5))
    return f"the vocabulary of {source} has no {names}; give a model of this script, or {train}"
  return f"the vocabulary of {source} lacks words such as {example}; give another one, or {train}"


def _reason_of_symbols(unknown: Sequence[str], vocabulary: Vocabulary, source: str | None) -> str:
  """Returns why a vocabulary does not have most of these symbols, and what to do."""
  names = " ".join(name[:20] for name, _ in collections.Counter(unknown).most_common(3))
  tokens = set(vocabulary.tokens)
  ordinary = {len(vocabulary.tokens[i]) for i in vocabulary.ordinary_ids}
  what = f"{source} has no tokens for {names}"
  if source is None:
    return f"model.config.vocab_size leaves no room for symbols such as {names}; raise or unset it"
  if sum(word.upper() in tokens for word in unknown) > len(unknown) / 2:
    return f"{what}, but for their capitals; set --config.corpus.case=upper"
  if unknown and len(ordinary) == 1 and {len(word) for word in unknown} != ordinary:
    k = ordinary.pop()
    return f"{what}; its tokens have {k} letters: set --config.corpus.symbols=kmers and --config.corpus.k={k}"
  return f"{what}; unset corpus.vocabulary and model.checkpoint to make one of the corpus's symbols"


def _say_overlap(documents: Sequence[Document]) -> int:
  """Warns if the words of a text are overlapping k-mers, and returns k; 1 for other texts."""
  lines = [text.split() for one in documents[:100] for text in one.paragraphs]
  found = collections.Counter(overlap(words) for words in lines)
  k, count = found.most_common(1)[0]
  if k is None or count < 0.9 * len(lines):
    return 1
  logging.warning(
    "The words are overlapping %d-mers, so a masked one can be read from its neighbours; set"
    " --config.corpus.symbols=kmers and --config.corpus.k=%d, or --config.masking.span=%d",
    k,
    k,
    k,
  )
  return k


def _news(ids: Sequence[np.ndarray], step: int) -> float:
  """Returns the size of compressed tokens as a share of what their frequencies alone ask for; 1 if there are few.

  Args:
    ids: token ids.
    step: each `step`-th token is looked at; k for overlapping k-mers.
  """
  tokens = np.concatenate([*ids, np.zeros(0, np.int32)])[::step]
  if len(tokens) < _LEAST_TOKENS:
    return 1.0
  shares = np.bincount(tokens) / len(tokens)
  shares = shares[shares > 0]
  bits = -len(tokens) * (shares * np.log2(shares)).sum()
  packed = tokens.astype(np.uint16 if tokens.max() < 1 << 16 else np.uint32).tobytes()
  return 8 * len(lzma.compress(packed, preset=1)) / max(1.0, bits)
