"""The vocabulary of a corpus: WordPiece trained on its text, or the symbols of an artificial one."""

import string
from collections.abc import Iterable

from tokenizers import (
  Tokenizer,
  decoders,
  models,
  normalizers,
  pre_tokenizers,
  processors,
  trainers,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Letters that every vocabulary has, so that the symbols of other disciplines are tokens of it.
_LETTERS = string.ascii_letters + string.digits + string.punctuation


def train_wordpiece(texts: Iterable[str], vocab_size: int, *, lowercase: bool) -> Tokenizer:
  """BERT's tokenizer (Devlin et al. 2019) with a vocabulary learnt from texts.

  Args:
    texts: to learn from.
    vocab_size: tokens, the five special ones counted. A small corpus may have fewer.
    lowercase: True for small letters without accents, as BERT's uncased models have it: not for scripts that write
      vowels as marks.
  """
  tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
  tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
  tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  tokenizer.decoder = decoders.WordPiece()
  letters = sorted(set(_LETTERS.lower() if lowercase else _LETTERS))
  trainer = trainers.WordPieceTrainer(
    vocab_size=vocab_size,
    special_tokens=list(SPECIAL_TOKENS),
    initial_alphabet=letters,
    show_progress=False,
  )
  tokenizer.train_from_iterator(texts, trainer)
  return _with_special_tokens(tokenizer)


def symbol_tokenizer(num_symbols: int) -> Tokenizer:
  """A tokenizer of symbols with blanks between them: the letters, digits and signs of ASCII, then 10, 11, 12, ...

  Their names mean nothing in an artificial corpus, but with these a task's letters and numbers are tokens of it.
  """
  names = [*_LETTERS, *(str(number) for number in range(10, num_symbols))][:num_symbols]
  vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *names])}
  tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  return _with_special_tokens(tokenizer)


def _with_special_tokens(tokenizer: Tokenizer) -> Tokenizer:
  """The same that puts `[CLS]` and `[SEP]` where BERT has them."""
  tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
  tokenizer.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
  )
  return tokenizer
