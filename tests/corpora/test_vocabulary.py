"""Vocabularies of corpora: what BERT's tokenizer would do, and that transformers opens them."""

import numpy as np
import pytest

from discipline_jax.corpora.vocabulary import SPECIAL_TOKENS, symbol_tokenizer, train_wordpiece
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.tasks import dna, protein

TEXTS = ["The cat sat on the mat.", "The cats SAT, the café closed."] * 10


def saved(tokenizer, folder):
  tokenizer.save(str(folder / "tokenizer.json"))
  return load_vocabulary(folder)


def test_wordpiece_is_berts(tmp_path):
  vocabulary = saved(train_wordpiece(TEXTS, 120, lowercase=True), tmp_path)
  assert vocabulary.tokens[:5] == SPECIAL_TOKENS
  assert vocabulary.special_ids == (0, 1, 2, 3, 4)
  assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.mask_id) == (0, 1, 4)

  def tokens(text):
    return [vocabulary.tokens[i] for i in vocabulary.encode(text)]

  assert tokens("The CAT sat, café.") == ["the", "cat", "sat", ",", "cafe", "."]
  encoding = vocabulary.tokenizer.encode("the cat", "sat")
  assert encoding.tokens == ["[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]"]
  assert encoding.type_ids == [0, 0, 0, 0, 1, 1]


def test_case_and_marks_can_stay(tmp_path):
  """Kannada writes vowels as marks: without them it is another text."""
  text = "ಕನ್ನಡ ಭಾಷೆ Latin"
  vocabulary = saved(train_wordpiece([text] * 5, 200, lowercase=False), tmp_path)
  assert [vocabulary.tokens[i] for i in vocabulary.encode(text)] == text.split()


@pytest.mark.parametrize("alphabet", [dna.ALPHABET, protein.ALPHABET], ids=["dna", "protein"])
def test_the_symbols_of_disciplines_are_tokens_of_every_vocabulary(alphabet, tmp_path):
  for number, tokenizer in enumerate(
    (symbol_tokenizer(200), train_wordpiece(TEXTS, 120, lowercase=True))
  ):
    folder = tmp_path / str(number)
    folder.mkdir()
    ids = saved(tokenizer, folder).symbol_ids(alphabet.symbols)
    assert len(np.unique(ids)) == len(alphabet.symbols)
    assert ids.min() >= len(SPECIAL_TOKENS)


def test_symbols_are_as_many_as_asked_for(tmp_path):
  vocabulary = saved(symbol_tokenizer(300), tmp_path)
  assert len(vocabulary.tokens) == 305
  ids = vocabulary.symbol_ids([str(pitch) for pitch in range(128)])
  assert len(np.unique(ids)) == 128


def test_transformers_opens_them(tmp_path):
  from transformers import PreTrainedTokenizerFast

  train_wordpiece(TEXTS, 120, lowercase=True).save(str(tmp_path / "tokenizer.json"))
  tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
  assert tokenizer.tokenize("The cat sat") == ["the", "cat", "sat"]
  assert tokenizer("the cat")["input_ids"][0] == 2
