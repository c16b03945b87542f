"""Tests sources of corpora: texts, data sets, artificial lines, names of prepared corpora, and mistakes in configs."""

import pathlib
import re

import numpy as np
import pytest

from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.source import Source, check_corpus, file_digests
from discipline_jax.corpora.text import Document
from discipline_jax.corpora.vocabulary import WordCounter, train_wordpiece
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import load_vocabulary
from tests.corpora.small_text import small_config


@pytest.fixture
def config(tmp_path):
  return small_config(tmp_path)


@pytest.mark.parametrize(
  ("fields", "name"),
  [
    ({}, "text-23f0950aba918eca"),
    ({"corpus.draws": 3, "objective.kind": "mlm", "seed": 5}, "text-c9e0bab4d6a17150"),
    ({"corpus.name": "nesting", "corpus.path": None}, "nesting-f7ca6252ad92b0e2"),
  ],
)
def test_prepared_corpora_keep_their_names(config, fields, name):
  """Otherwise users would have to prepare a corpus again after an update of this package."""
  config.update_from_flattened_dict(fields)
  source = Source(config)
  assert source.key(file_digests(source.files)) == name


def test_a_small_corpus_has_few_tokens(config, caplog):
  config.model.config.vocab_size = 9000
  size = len(prepare(config).vocabulary.tokens)
  assert size < 9000
  assert re.search(rf"\b{size} .*\b9000\b", caplog.text)


def test_symbols_are_as_frequent_as_the_tokens_of_a_text(config, tmp_path):
  vocabulary = prepare(config)
  text = config.corpus.path
  config.corpus.update(name="flat", path=text, vocabulary=str(vocabulary.directory), lines=3000)
  config.corpus.length = (128,)
  config.objective.kind = "mlm"
  prepared = prepare(config)
  ids = prepared.records("train", 128).first(10_000)["ids"]
  counts = np.bincount(ids.ravel(), minlength=130)[5:]
  # Every sentence has "The", "of", "is", "number" and "."; all other words are rarer.
  assert counts[:5].min() > 2 * counts[10]
  assert counts[:5].std() < 0.05 * counts[:5].mean()


def test_a_dataset_of_tensorflow_datasets(config, monkeypatch):
  tfds = pytest.importorskip("tensorflow_datasets")
  texts = [f"Title {i}\n\nFirst of {i}. Second of {i}.\n" for i in range(8)] + [" \n"]
  monkeypatch.setattr(
    tfds, "data_source", lambda name, split: [{"text": text.encode()} for text in texts]
  )
  config.corpus.update(name="tfds", path="wikipedia/20230601.en")
  config.model.config.vocab_size = 90
  assert prepare(config).description["statistics"]["documents"] == 8


@pytest.mark.parametrize(
  ("fields", "facts"),
  [
    ({"corpus.path": None}, "corpus.path .*; .*--config.corpus.path .*file"),
    ({"corpus.name": "tfds", "corpus.path": None}, "corpus.path .*; .*--config.corpus.path .*/"),
    ({"corpus.path": "/nowhere"}, "/nowhere; .*--config.corpus.path"),
    ({"corpus.name": "books"}, "corpus.name = 'books' .*: text, tfds, uniform, flat, nesting$"),
    ({"objective.kind": "nsp"}, "objective.kind = 'nsp' .*: mlm, mlm_nsp, mlm_sop, causal$"),
    (
      {"model.config.vocab_size": None},
      "corpus.vocabulary .*model.config.vocab_size .*--config.corpus.vocabulary",
    ),
    ({"corpus.length": (4,)}, r"corpus.length = \(4,\) .*\b5$"),
    ({"corpus.length": ()}, r"corpus.length = \(\), validation"),
    ({"corpus.validation": 0.0}, r"validation = 0.0, .*\(0, 1\)"),
    ({"corpus.validation": 1.0}, r"validation = 1.0, .*\(0, 1\)"),
    ({"corpus.draws": 0}, "draws = 0, .*dupe factor"),
    ({"corpus.name": "nesting", "corpus.path": None, "corpus.lines": 1}, "lines = 1:"),
    ({"corpus.name": "flat"}, "corpus.path = '.*text.txt'.* corpus.vocabulary = None"),
    (
      {"corpus.name": "uniform", "corpus.path": None, "model.config.vocab_size": 6},
      r"model.config.vocab_size = 6 .*\b5\b.*\b7$",
    ),
  ],
)
def test_mistakes(config, fields, facts):
  with config.ignore_type():
    config.update_from_flattened_dict(fields)
  with pytest.raises(UserError, match=facts):
    prepare(config)
  cache = pathlib.Path(config.cache_dir) / "corpora"
  assert not cache.exists() or not [path for path in cache.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
  ("text", "kind", "facts"),
  [
    ("", "mlm", "document.* {}; "),
    ("\n\n \n", "mlm", "document.* {}; "),
    ("One. Two. Three.", "mlm", r"\b1 document.*\b2;"),
    ("One. Two.\nThree.", "mlm_nsp", r"\b1 document.*\b4;"),
    ("One.\n\nTwo.\n\nThree.", "mlm_nsp", r"\b3 document.*\b4;.*objective.kind=mlm"),
  ],
)
def test_corpora_that_are_too_small(config, tmp_path, text, kind, facts):
  (tmp_path / "small.txt").write_text(text)
  config.corpus.path = str(tmp_path / "small.txt")
  config.objective.kind = kind
  config.corpus.vocabulary = str(prepare_vocabulary(tmp_path))
  config.model.config.vocab_size = None
  with pytest.raises(UserError, match=facts.replace("{}", config.corpus.path)):
    prepare(config)


def prepare_vocabulary(folder):
  vocabulary = folder / "vocabulary"
  vocabulary.mkdir()
  words = WordCounter(True).count([Document("", ("One two three.",))])
  train_wordpiece(words, 100, lowercase=True).save(str(vocabulary / "tokenizer.json"))
  return vocabulary


@pytest.mark.parametrize(
  ("texts", "part"),
  [(["one", "two"] * 4, "train"), (["one two"] * 4 + ["one"] + ["one two"] * 3, "validation")],
)
def test_documents_of_one_token_have_no_order(config, tmp_path, texts, part):
  """Of eight documents, the fifth is held out."""
  (tmp_path / "short.txt").write_text("\n\n".join(texts))
  config.corpus.path = str(tmp_path / "short.txt")
  config.objective.kind = "mlm_sop"
  with pytest.raises(UserError, match=rf"\b{part}\b.*\b24\b.*objective.kind=mlm"):
    prepare(config)
  config.objective.kind = "mlm"
  assert prepare(config).records(part, 24).size > 0


def test_a_vocabulary_of_another_size(config, tmp_path):
  config.corpus.vocabulary = str(prepare_vocabulary(tmp_path))
  tokens = len(load_vocabulary(tmp_path / "vocabulary").tokens)
  with pytest.raises(
    UserError, match=rf"vocab_size = 130, .*{config.corpus.vocabulary} .*\b{tokens} "
  ):
    prepare(config)


@pytest.mark.parametrize(
  ("field", "allowed", "refused"),
  [("lines", 2, 1), ("draws", 1, 0), ("validation", 0.99, 1.0), ("length", (5,), ())],
)
def test_the_limits_of_numbers(config, field, allowed, refused):
  config.corpus.update(name="uniform", path=None)
  config.corpus[field] = allowed
  check_corpus(config)
  config.corpus[field] = refused
  with pytest.raises(UserError, match=re.escape(f"{field} = {refused}")):
    check_corpus(config)
