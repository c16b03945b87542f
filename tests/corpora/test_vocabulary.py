"""Tests vocabularies of corpora: they work as BERT's do, they are reproducible, and transformers opens them."""

import collections
import json

import numpy as np
import pytest
from tokenizers import models, trainers

from discipline_jax.corpora import vocabulary
from discipline_jax.corpora.tally import Tally, total
from discipline_jax.corpora.text import Document
from discipline_jax.corpora.vocabulary import (
  SPECIAL_TOKENS,
  WordCounter,
  symbol_tokenizer,
  train_wordpiece,
)
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.tasks import dna, protein

TEXTS = ["The cat sat on the mat.", "The cats SAT, the café closed."] * 10


def wordpiece(texts, size, lowercase=True):
  """Trains WordPiece on texts."""
  words = WordCounter(lowercase).count([Document("", tuple(texts))])
  return train_wordpiece(words, size, lowercase=lowercase)


def saved(tokenizer, folder):
  tokenizer.save(str(folder / "tokenizer.json"))
  return load_vocabulary(folder)


def test_wordpiece_works_as_in_bert(tmp_path):
  vocabulary = saved(wordpiece(TEXTS, 120), tmp_path)
  assert vocabulary.tokens[:5] == SPECIAL_TOKENS
  assert vocabulary.special_ids == (0, 1, 2, 3, 4)
  assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.mask_id) == (0, 1, 4)

  def tokens(text):
    return [vocabulary.tokens[i] for i in vocabulary.encode(text)]

  assert tokens("The CAT sat, café.") == ["the", "cat", "sat", ",", "cafe", "."]
  encoding = vocabulary.tokenizer.encode("the cat", "sat")
  assert encoding.tokens == ["[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]"]
  assert encoding.type_ids == [0, 0, 0, 0, 1, 1]


def test_the_same_texts_give_the_same_vocabulary():
  """The order of the words does not matter, although many pairs of letters are equally frequent."""
  rng = np.random.default_rng(0)
  words = ["".join(rng.choice([*"abcdefghij"], 6)) for _ in range(300)]
  first = wordpiece([" ".join(words)], 400)
  assert first.get_vocab_size() == 400
  for _ in range(3):
    rng.shuffle(words)
    again = wordpiece([" ".join(words)], 400)
    assert again.to_str() == first.to_str()


def test_pieces_are_not_special_tokens():
  tokenizer = wordpiece(TEXTS, 120)
  assert tokenizer.encode("##a", add_special_tokens=False).tokens == ["#", "#", "a"]
  added = json.loads(tokenizer.to_str())["added_tokens"]
  assert [one["content"] for one in added] == list(SPECIAL_TOKENS)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("text", ["İzmir 北京 naïve e\u0301te", "ಕನ್ನಡ, x\u200dy."])
def test_every_letter_within_a_word_has_a_piece(text, lowercase):
  """The texts have marks, a joiner, and a capital letter whose lower case is two characters.

  Punctuation marks and Chinese characters are words by themselves, so they need no piece.
  """
  tokenizer = wordpiece([text], 300, lowercase=lowercase)
  assert not {"##京", "##,", "##."} & tokenizer.get_vocab().keys()
  assert "[UNK]" not in tokenizer.encode(text).tokens
  # also in words that were not in the training text
  assert "[UNK]" not in tokenizer.encode(text.replace(" ", "")).tokens


def test_case_and_marks_can_be_kept(tmp_path):
  """Kannada writes vowels as marks, so a text without them is another text."""
  text = "ಕನ್ನಡ ಭಾಷೆ Latin"
  vocabulary = saved(wordpiece([text] * 5, 200, lowercase=False), tmp_path)
  assert [vocabulary.tokens[i] for i in vocabulary.encode(text)] == text.split()


@pytest.mark.parametrize("alphabet", [dna.ALPHABET, protein.ALPHABET], ids=["dna", "protein"])
def test_the_symbols_of_disciplines_are_tokens_of_every_vocabulary(alphabet, tmp_path):
  for number, tokenizer in enumerate((symbol_tokenizer(200), wordpiece(TEXTS, 120))):
    folder = tmp_path / str(number)
    folder.mkdir()
    ids = saved(tokenizer, folder).symbol_ids(alphabet.symbols)
    assert len(np.unique(ids)) == len(alphabet.symbols)
    assert ids.min() >= len(SPECIAL_TOKENS)


def test_the_number_of_symbols(tmp_path):
  vocabulary = saved(symbol_tokenizer(300), tmp_path)
  assert len(vocabulary.tokens) == 305
  ids = vocabulary.symbol_ids([str(pitch) for pitch in range(128)])
  assert len(np.unique(ids)) == 128


def test_transformers_opens_them(tmp_path):
  from transformers import PreTrainedTokenizerFast

  wordpiece(TEXTS, 120).save(str(tmp_path / "tokenizer.json"))
  tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
  assert tokenizer.tokenize("The cat sat") == ["the", "cat", "sat"]
  assert tokenizer("the cat")["input_ids"][0] == 2


HOSTILE = [
  *TEXTS,
  "tab\tand\x0bother\x1cseparators\x85of \u2003words\u3000 here  and  two  blanks ",
  "marks e\u0301te \u0301 alone, zero\u200bwidth\u200djoiner, \ufeffa mark, \x00 and \ufffd",
  "İzmir ΣΑΣ ὀδυσσεύς straße 北京大学 x北y ಕನ್ನಡ, ಭಾಷೆ. \U0001f600\U0001f468\u200d\U0001f469",
  "dots...and--dashes don't e.g. 3.14, U.S.A. (a)b[c]{d} ~~~ `x` $5 50% a_b #tag @me",
]


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_counted_by_parts_give_what_the_library_makes_of_the_texts(lowercase):
  """The library's own way: it reads all texts, splits them as BERT does, and counts the words itself."""
  plain = vocabulary._bert_tokenizer(models.WordPiece(unk_token="[UNK]"), lowercase=lowercase)
  whole = WordCounter(lowercase).count([Document("", tuple(HOSTILE))])
  trainer = trainers.WordPieceTrainer(
    vocab_size=260,
    special_tokens=[*SPECIAL_TOKENS, *(f"##{letter}" for letter in sorted(whole.letters))],
    initial_alphabet=sorted(set(vocabulary._LETTERS.lower() if lowercase else vocabulary._LETTERS)),
    show_progress=False,
  )
  plain.train_from_iterator(HOSTILE, trainer)
  parts = [WordCounter(lowercase).count([Document("", (text,))]) for text in HOSTILE]
  ours = train_wordpiece(total(parts), 260, lowercase=lowercase)
  assert ours.get_vocab() == plain.get_vocab()
  assert total(parts) == Tally(dict(whole.counts), whole.letters)


def test_words_are_those_of_the_library():
  plain = vocabulary._bert_tokenizer(models.WordPiece(unk_token="[UNK]"), lowercase=True)
  expected = collections.Counter(
    word
    for text in HOSTILE
    for word, _ in plain.pre_tokenizer.pre_tokenize_str(plain.normalizer.normalize_str(text))
  )
  assert WordCounter(True).count([Document("", tuple(HOSTILE))]).counts == expected


def test_frequent_words_are_fed_as_often_as_they_were_counted():
  counts = {"the": 100_003, "x" * 20_000: 2, "rare": 1, "\U0001f600": 5000}
  fed = collections.Counter(word for text in vocabulary._texts(counts) for word in text.split())
  assert fed == counts
