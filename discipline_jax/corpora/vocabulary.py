"""Makes the vocabulary of a corpus: trains WordPiece on its words, or names the symbols of an artificial corpus."""

import collections
import dataclasses
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tokenizers import (
  Regex,
  Tokenizer,
  decoders,
  models,
  normalizers,
  pre_tokenizers,
  processors,
  trainers,
)

from discipline_jax.corpora.tally import Tally
from discipline_jax.corpora.text import Document

_UNKNOWN = "[UNK]"
SPECIAL_TOKENS = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# Every vocabulary has these characters, so that the symbols of other disciplines are among its tokens.
_LETTERS = string.ascii_letters + string.digits + string.punctuation
_TEXT = 1 << 14  # letters of a text that words are written into


@dataclasses.dataclass(frozen=True)
class WordCounter:
  """Counts the words that WordPiece is trained on.

  Attributes:
    lowercase: True lowercases words and strips accents, as BERT's uncased models do. Set False for scripts that write
      vowels as marks.
  """

  lowercase: bool

  def count(self, documents: Iterable[Document]) -> Tally:
    """Counts the words of documents, and finds the letters that can follow another one within a word."""
    tokenizer = _bert_tokenizer(models.WordPiece(unk_token=_UNKNOWN), lowercase=self.lowercase)
    normalise = tokenizer.normalizer.normalize_str
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    # Words do not depend on what stands behind a blank. So what stands between blanks is split once, and not each time.
    found: collections.Counter[str] = collections.Counter()
    for document in documents:
      for text in document.paragraphs:
        found.update(text.split(" "))
    counts: collections.Counter[str] = collections.Counter()
    for part, number in found.items():
      for word, _ in split(normalise(part)):
        counts[word] += number
    letters = {letter for part in found for letter in part}
    return Tally(counts, _inner_letters(letters, tokenizer))


def train_wordpiece(words: Tally, vocab_size: int, *, lowercase: bool) -> Tokenizer:
  """Trains BERT's tokenizer (Devlin et al. 2019); the same words give the same vocabulary.

  Args:
    words: the words of a corpus, as `WordCounter` counts them.
    vocab_size: tokens of the vocabulary, the five special ones included. A small corpus may give fewer.
    lowercase: that of the counter.
  """
  trainer = trainers.WordPieceTrainer(
    vocab_size=vocab_size,
    # Of equally frequent pairs, the trainer merges the one with the lowest ids. But the ids of the pieces `##x` follow
    # the order of a hash map, which differs between runs. Special tokens get their ids first, in the given order.
    special_tokens=[*SPECIAL_TOKENS, *(f"##{letter}" for letter in sorted(words.letters))],
    initial_alphabet=sorted(set(_LETTERS.lower() if lowercase else _LETTERS)),
    show_progress=False,
  )
  # The library counts words itself. So it gets texts in which each word is as frequent, and nothing else to do.
  empty = Tokenizer(models.WordPiece(unk_token=_UNKNOWN))
  empty.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  empty.train_from_iterator(_texts(words.counts), trainer)
  # In the tokenizer that is returned, the pieces must not be special tokens.
  trained = models.WordPiece(empty.get_vocab(), unk_token=_UNKNOWN)
  return _with_special_tokens(_bert_tokenizer(trained, lowercase=lowercase))


def _texts(counts: Mapping[str, int]) -> Iterator[str]:
  """Yields texts in which each word occurs as often as it was counted, with blanks between words."""
  parts: list[str] = []
  letters = 0
  for word, count in counts.items():
    most = max(1, _TEXT // (len(word) + 1))
    for number in (most,) * (count // most) + (count % most,):
      parts.append(f"{word} " * number)
      letters += len(parts[-1])
      if letters >= _TEXT:
        yield "".join(parts)
        parts, letters = [], 0
  yield "".join(parts)


def _bert_tokenizer(model: models.Model, *, lowercase: bool) -> Tokenizer:
  """Makes a tokenizer that normalises texts and splits them into words as BERT does."""
  tokenizer = Tokenizer(model)
  tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
  tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  tokenizer.decoder = decoders.WordPiece()
  return tokenizer


def _inner_letters(letters: Iterable[str], tokenizer: Tokenizer) -> frozenset[str]:
  """Returns what these characters of a text become that can follow another character within a word."""
  inner: set[str] = set()
  for letter in letters:
    text = tokenizer.normalizer.normalize_str(f"a{letter}")
    for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text):
      inner.update(word[1:])
  return frozenset(inner)


def symbol_tokenizer(num_symbols: int) -> Tokenizer:
  """Makes a tokenizer for symbols that are separated by blanks.

  The symbols are the letters, digits and punctuation of ASCII, then 10, 11, 12, ... In an artificial corpus their names
  have no meaning, but with these names the letters and numbers of a task are among the tokens.
  """
  names = [*_LETTERS, *(str(number) for number in range(10, num_symbols))][:num_symbols]
  return word_level([*SPECIAL_TOKENS, *names], SPECIAL_TOKENS)


def word_level(
  tokens: Sequence[str], special: Sequence[str], *, letters: bool = False
) -> Tokenizer:
  """Makes a tokenizer whose tokens have blanks between them.

  Args:
    tokens: all tokens in the order of their ids.
    special: the tokens for padding, unknown symbols, the start, the end and masks.
    letters: True makes a token of each letter, with or without blanks between them.
  """
  vocabulary = {token: i for i, token in enumerate(tokens)}
  tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special[1]))
  tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  if letters:
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
      [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
  return _with_special_tokens(tokenizer, special)


def _with_special_tokens(
  tokenizer: Tokenizer, special: Sequence[str] = SPECIAL_TOKENS
) -> Tokenizer:
  """Makes a tokenizer know the special tokens, and add [CLS] and [SEP] to texts as BERT does."""
  tokenizer.add_special_tokens(list(special))
  _, _, cls, sep, _ = special
  tokenizer.post_processor = processors.TemplateProcessing(
    single=f"{cls} $A {sep}",
    pair=f"{cls} $A {sep} $B:1 {sep}:1",
    special_tokens=[(token, tokenizer.token_to_id(token)) for token in (cls, sep)],
  )
  return tokenizer
