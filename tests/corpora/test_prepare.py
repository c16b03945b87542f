"""Preparation: from a corpus on disk to instances on disk."""

import collections
import json

import numpy as np
import pytest

from discipline_jax import defaults
from discipline_jax.corpora import blocks
from discipline_jax.corpora import prepare as module
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.prepared import Prepared, summary
from discipline_jax.corpora.text import read_documents
from discipline_jax.errors import UserError
from tests.corpora.small_text import write_text


@pytest.fixture
def config(tmp_path):
  config = defaults.pretrain()
  config.cache_dir = str(tmp_path / "cache")
  config.corpus.update(
    path=str(write_text(tmp_path / "text.txt")), length=(24, 48), validation=0.1, draws=2
  )
  config.model.config.vocab_size = 130
  return config


def words(prepared, part, length):
  """The words of a part's rows, a list for each."""
  tokens = prepared.vocabulary.tokens
  rows = prepared.records(part, length).first(10_000)["ids"]
  return [
    " ".join(tokens[i] for i in row if i != prepared.vocabulary.pad_id)
    .replace("] ##", "] ")
    .replace(" ##", "")
    .split()
    for row in rows
  ]


def documents(rows):
  return {word for row in rows for word in row if word[0] == "d" and word[1:].isdigit()}


def test_documents_are_trained_on_or_held_out(config):
  prepared = prepare(config)
  for length in (24, 48):
    train, held_out = (documents(words(prepared, part, length)) for part in ("train", "validation"))
    assert len(train) == 27
    assert len(held_out) == 3
    assert not train & held_out


def test_rows_are_pairs_in_words_of_the_text(config):
  prepared = prepare(config)
  for row in words(prepared, "train", 48):
    assert row[0] == "[CLS]"
    assert row[-1] == "[SEP]"
    assert collections.Counter(row)["[SEP]"] == 2
    assert "[UNK]" not in row
  labels = prepared.records("train", 24).first(10_000)["label"]
  assert 0.3 < labels.mean() < 0.8


def test_statistics(config):
  prepared = prepare(config)
  numbers = prepared.description["statistics"]
  assert numbers["documents"] == 30
  assert numbers["sentences"] == 30 * 12
  assert numbers["unknown"] == 0
  parts = numbers["parts"]
  records = prepared.records("train", 24)
  assert parts["train_24"]["instances"] == records.size
  first = prepared.records("validation", 24).first(10_000)["ids"]
  assert parts["validation_24"]["tokens"] == (first != prepared.vocabulary.pad_id).sum()
  assert f"{numbers['tokens']:,} tokens" in summary(prepared)


def test_entropy_and_types_by_hand(config):
  config.corpus.update(name="uniform", path=None, lines=2000, draws=1, length=(128,))
  config.objective.kind = "mlm"
  config.model.config.vocab_size = 5 + 64
  numbers = prepare(config).description["statistics"]
  assert numbers["types"] == 64
  assert numbers["entropy"] == pytest.approx(np.log(64), abs=1e-3)
  assert 100 * 2000 < numbers["tokens"] < 119 * 2000
  assert numbers["parts"]["train_128"]["instances"] == 1800  # a line is a row


def test_it_is_done_once(config, monkeypatch):
  first = prepare(config)
  monkeypatch.setattr(module, "_make", lambda *_: pytest.fail("made again"))
  config.corpus.path = str(write_text(config_path(config).with_name("the_same.txt")))
  assert prepare(config).directory == first.directory
  config.corpus.path = str(write_text(config_path(config).with_name("another.txt"), 31))
  with pytest.raises(pytest.fail.Exception, match="made again"):
    prepare(config)


def config_path(config):
  return module.pathlib.Path(config.corpus.path)


def test_a_prepared_folder_can_be_given(config, tmp_path):
  prepared = prepare(config)
  copy = tmp_path / "copy"
  prepared.directory.rename(copy)
  config.corpus.path = str(copy)
  again = prepare(config)
  assert again.directory == copy
  assert again.vocabulary.tokens == prepared.vocabulary.tokens
  config.objective.kind = "mlm"
  with pytest.raises(
    UserError, match="was prepared with pairing 'next_sentence', but this run has 'none'"
  ):
    prepare(config)


def test_what_a_kill_left_is_cleared_away(config):
  directory = prepare(config).directory
  part = directory.with_name(f".{directory.name}.1234.part")
  directory.rename(part)
  (part / "corpus.json").unlink()
  (part / "train-24-0-00000.array_record").write_bytes(b"half")
  assert prepare(config).records("train", 24).size > 0
  assert not part.exists()


def test_processes_make_what_one_would(config, monkeypatch):
  monkeypatch.setattr(blocks, "_CHARACTERS", 3000)
  prepared = prepare(config)
  files = sorted(path.name for path in prepared.directory.glob("train-24-0-*"))
  assert len(files) > 2
  settings = blocks.Settings("en", (24, 48), 2, "next_sentence", 0.1, 0)
  own = config_path(config).with_name("own")
  own.mkdir()
  documents = read_documents([config_path(config)])
  for number, block in enumerate(blocks.text_blocks(documents, "next_sentence")):
    blocks.write_block(number, block, settings, prepared.vocabulary, own)
  assert sorted(path.name for path in own.iterdir()) == sorted(
    path.name for path in prepared.directory.glob("*.array_record")
  )
  for path in own.iterdir():
    assert path.read_bytes() == (prepared.directory / path.name).read_bytes()


@pytest.mark.parametrize("name", ["text", "uniform"])
def test_transformers_opens_the_vocabulary(config, name):
  """As it is: capital letters and marks stay where they are not to be taken away."""
  from transformers import AutoTokenizer

  config.corpus.update(lowercase=False, draws=1)
  if name == "uniform":
    config.corpus.update(name=name, path=None, lines=20)
  prepared = prepare(config)
  config_of_model = {"model_type": "bert", "vocab_size": len(prepared.vocabulary.tokens)}
  (prepared.directory / "config.json").write_text(json.dumps(config_of_model))
  theirs = AutoTokenizer.from_pretrained(prepared.directory)
  for text in ("A C G T", "The one"):
    assert theirs(text)["input_ids"][1:-1] == prepared.vocabulary.encode(text)
  assert theirs.mask_token_id == prepared.vocabulary.mask_id


def test_a_folder_that_lacks_files_is_an_error(config):
  prepared = prepare(config)
  (prepared.directory / "train-24-1-00000.array_record").unlink()
  with pytest.raises(UserError, match="the prepared corpus has 0 of its .* copy all its files"):
    prepared.records("train", 24)


def test_the_last_block_takes_what_is_left(monkeypatch):
  monkeypatch.setattr(blocks, "_LINES", 10)
  for total in (1, 9, 10, 11, 19, 20, 35):
    parts = [one.num_lines for one in blocks.line_blocks("uniform", total, 0, np.ones(3))]
    assert sum(parts) == total
    assert len(parts) == max(1, total // 10)


def test_long_sentences_are_cut_and_little_is_lost(config, tmp_path):
  long = " ".join(["word"] * 200)
  (tmp_path / "long.txt").write_text("\n\n".join([long] * 20))
  config.corpus.path = str(tmp_path / "long.txt")
  config.objective.kind = "mlm_sop"
  config.model.config.vocab_size = 110
  prepared = prepare(config)
  numbers = prepared.description["statistics"]
  assert numbers["parts"]["long_24"] == 20
  rows = words(prepared, "train", 24)
  assert 0.8 * 18 * 200 < sum(row.count("word") for row in rows) <= 18 * 200
  assert "20 longer sentences were cut" in summary(prepared)


def test_a_small_corpus_has_few_tokens(config, caplog):
  config.model.config.vocab_size = 9000
  size = len(prepare(config).vocabulary.tokens)
  assert size < 9000
  assert f"it gives a vocabulary of {size} tokens, not of 9000" in caplog.text


def test_symbols_as_frequent_as_a_text_has_them(config, tmp_path):
  vocabulary = prepare(config)
  text = config.corpus.path
  config.corpus.update(name="flat", path=text, vocabulary=str(vocabulary.directory), lines=3000)
  config.corpus.length = (128,)
  config.objective.kind = "mlm"
  prepared = prepare(config)
  ids = prepared.records("train", 128).first(10_000)["ids"]
  counts = np.bincount(ids.ravel(), minlength=130)[5:]
  # "The", "of", "is", "number" and "." are of every sentence, and then come the others.
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
  ("fields", "message"),
  [
    ({"corpus.path": None}, "corpus.path is not set; set --config.corpus.path to a file or folder"),
    ({"corpus.path": "/nowhere"}, "no such file or folder, /nowhere; set --config.corpus.path"),
    ({"corpus.name": "books"}, "corpus.name = 'books' is not one of: text, tfds, uniform, flat"),
    ({"objective.kind": "nsp"}, "objective.kind = 'nsp' is not one of: mlm, mlm_nsp"),
    (
      {"model.config.vocab_size": None},
      "neither corpus.vocabulary nor model.config.vocab_size is set",
    ),
    ({"corpus.length": (4,)}, "corpus.length = (4,) leaves no room for text"),
    ({"corpus.validation": 0.0}, "a share between 0 and 1"),
    ({"corpus.name": "flat"}, "set both or none"),
    ({"corpus.name": "uniform", "corpus.path": None, "model.config.vocab_size": 6}, "no symbols"),
  ],
)
def test_mistakes(config, fields, message):
  with config.ignore_type():
    config.update_from_flattened_dict(fields)
  with pytest.raises(UserError) as error:
    prepare(config)
  assert message in str(error.value)
  cache = module.pathlib.Path(config.cache_dir) / "corpora"
  assert not cache.exists() or not [path for path in cache.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
  ("text", "kind", "message"),
  [
    ("", "mlm", "no document, "),
    ("\n\n \n", "mlm", "no document, "),
    ("One. Two. Three.", "mlm", "1 document(s) with text, but a held-out one needs at least 2"),
    ("One. Two.\nThree.", "mlm_nsp", "a next sentence of another document needs at least 4"),
    ("One.\n\nTwo.\n\nThree.", "mlm_nsp", "or set objective.kind=mlm"),
  ],
)
def test_corpora_that_are_too_small(config, tmp_path, text, kind, message):
  (tmp_path / "small.txt").write_text(text)
  config.corpus.path = str(tmp_path / "small.txt")
  config.objective.kind = kind
  config.corpus.vocabulary = str(prepare_vocabulary(tmp_path))
  config.model.config.vocab_size = None
  with pytest.raises(UserError) as error:
    prepare(config)
  assert message in str(error.value)


def prepare_vocabulary(folder):
  from discipline_jax.corpora.vocabulary import train_wordpiece

  vocabulary = folder / "vocabulary"
  vocabulary.mkdir()
  train_wordpiece(["One two three."], 100, lowercase=True).save(str(vocabulary / "tokenizer.json"))
  return vocabulary


def test_a_vocabulary_of_another_size(config, tmp_path):
  config.corpus.vocabulary = str(prepare_vocabulary(tmp_path))
  with pytest.raises(UserError, match="model.config.vocab_size = 130, but .* tokens; unset it"):
    prepare(config)


def test_a_broken_description_is_an_error(config):
  prepared = prepare(config)
  (prepared.directory / "corpus.json").write_text("{")
  with pytest.raises(UserError, match="not a prepared corpus"):
    Prepared.open(prepared.directory)
  assert json.loads((prepared.directory / "tokenizer.json").read_text())
