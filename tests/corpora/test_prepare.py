"""Tests the preparation of a corpus, from text on disk to instances on disk."""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from discipline_jax.corpora import blocks, description, ranges
from discipline_jax.corpora import prepare as module
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.prepared import Prepared, summary
from discipline_jax.corpora.text import read_documents
from discipline_jax.errors import RunFailed, UserError
from tests.corpora.small_text import plain_blocks, small_config, write_text


@pytest.fixture
def config(tmp_path):
  return small_config(tmp_path)


def words(prepared, part, length):
  """Returns the words of each row of a part."""
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


def test_a_document_is_either_trained_on_or_held_out(config):
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


def test_summary(config):
  """Each line shows the numbers that it is about."""
  prepared = prepare(config)
  numbers = prepared.description["statistics"]
  rows = summary(prepared)
  assert list(rows) == ["corpus", "vocabulary", "24 tokens", "48 tokens", "folder"]
  assert {"30", "360", f"{numbers['tokens']:,}", f"{numbers['entropy']:.3f}"} <= numbers_in(
    rows["corpus"]
  )
  assert {f"{len(prepared.vocabulary.tokens)}", "0.00"} <= numbers_in(rows["vocabulary"])
  rows_of_train = prepared.records("train", 24).first(10_000)["ids"]
  assert str(numbers["parts"]["validation_24"]["instances"]) in numbers_in(rows["24 tokens"])
  assert f"{numbers['parts']['train_24']['instances']:,}" in numbers_in(rows["24 tokens"])
  share = 100 * (rows_of_train != prepared.vocabulary.pad_id).mean()  # in one of two draws
  assert float(re.search(r"([\d.]+)%", rows["24 tokens"])[1]) == pytest.approx(share, abs=3)
  assert rows["folder"] == str(prepared.directory)
  config.corpus.update(name="nesting", path=None, lines=20, length=(128,), draws=1)
  config.objective.kind = "mlm"
  prepared = prepare(config)
  distance = prepared.description["statistics"]["mean_distance"]
  assert f"{distance:.2f}" in numbers_in(summary(prepared)["dependency"])


def numbers_in(text):
  return set(re.findall(r"\d[\d,.]*\d|\d", text))


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
  return pathlib.Path(config.corpus.path)


def test_a_prepared_folder_can_be_given(config, tmp_path):
  prepared = prepare(config)
  copy = tmp_path / "copy"
  prepared.directory.rename(copy)
  config.corpus.path = str(copy)
  again = prepare(config)
  assert again.directory == copy
  assert again.vocabulary.tokens == prepared.vocabulary.tokens
  config.objective.kind = "mlm"
  with pytest.raises(UserError, match=f"pairing 'next_sentence'.* 'none', {copy};"):
    prepare(config)


def test_files_of_a_killed_process_are_deleted(config):
  directory = prepare(config).directory
  part = directory.with_name(f".{directory.name}.1234.part")
  directory.rename(part)
  (part / "corpus.json").unlink()
  (part / "train-24-0-00000.array_record").write_bytes(b"half")
  assert prepare(config).records("train", 24).size > 0
  assert not part.exists()


def test_worker_processes_write_the_same_files_as_one(config, monkeypatch):
  monkeypatch.setattr(ranges, "CHARACTERS", 3000)
  prepared = prepare(config)
  files = sorted(path.name for path in prepared.directory.glob("train-24-0-*"))
  assert len(files) > 2
  settings = blocks.Settings("en", (24, 48), 2, "next_sentence", 0.1, 0)
  own = config_path(config).with_name("own")
  own.mkdir()
  documents = list(read_documents(config_path(config)))
  for number, content in enumerate(plain_blocks(documents, 3000, 4)):
    block = blocks.TextBlock(content)
    blocks.write_block(number, block, settings, prepared.vocabulary, own)
  assert sorted(path.name for path in own.iterdir()) == sorted(
    path.name for path in prepared.directory.glob("*.array_record")
  )
  for path in own.iterdir():
    assert path.read_bytes() == (prepared.directory / path.name).read_bytes()


@pytest.mark.parametrize(("affinity", "expected"), [({1}, 1), ({0, 2, 5}, 3), (None, 7)])
def test_as_many_processes_as_this_one_may_use_cores(config, monkeypatch, affinity, expected):
  monkeypatch.setattr(ranges, "CHARACTERS", 3000)
  monkeypatch.setattr(os, "cpu_count", lambda: 7)
  if affinity is None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
  else:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: affinity, raising=False)

  def pool(workers, *_):
    raise RunFailed(f"{workers} workers")

  monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", pool)
  with pytest.raises(RunFailed, match=f"^{expected} workers$"):
    prepare(config)


def test_only_texts_need_the_package_that_splits_sentences():
  """Runs in its own process, because other tests import that package."""
  code = """
import sys
sys.modules["sentencex"] = None
import discipline_jax.corpora.prepare
"""
  subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["text", "uniform"])
def test_transformers_opens_the_vocabulary(config, name):
  """transformers' tokenizer neither lowercases nor strips accents if ours does not."""
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
  expected = prepared.description["statistics"]["parts"]["train_24"]["instances"]
  with pytest.raises(UserError, match=rf" 0 .*\b{expected} .*train.* 24 .*{prepared.directory};"):
    prepared.records("train", 24)


def test_the_last_block_takes_the_remaining_lines(monkeypatch):
  monkeypatch.setattr(blocks, "_LINES", 10)
  for total in (1, 9, 10, 11, 19, 20, 35):
    parts = blocks.line_counts(total)
    assert sum(parts) == total
    assert len(parts) == max(1, total // 10)


def test_long_sentences_are_cut_and_little_is_lost(config, tmp_path):
  long = " ".join(["word", "text"] * 100)
  (tmp_path / "long.txt").write_text("\n\n".join([long] * 20))
  config.corpus.path = str(tmp_path / "long.txt")
  config.objective.kind = "mlm_sop"
  config.model.config.vocab_size = 110
  prepared = prepare(config)
  numbers = prepared.description["statistics"]
  assert numbers["parts"]["long_24"] == 20
  rows = words(prepared, "train", 24)
  assert 0.8 * 18 * 200 < sum(row.count("word") + row.count("text") for row in rows) <= 18 * 200
  assert "20" in numbers_in(summary(prepared)["24 tokens"])


@pytest.mark.parametrize("content", [b"{", b"\xff", None])
def test_a_broken_description_is_an_error(config, content):
  prepared = prepare(config)
  (prepared.directory / "corpus.json").unlink()
  if content is not None:
    (prepared.directory / "corpus.json").write_bytes(content)
  with pytest.raises(UserError, match=f" {prepared.directory};"):
    Prepared.open(prepared.directory)
  assert json.loads((prepared.directory / "tokenizer.json").read_text())


def test_the_command(config, capsys):
  arguments = [
    "prepare",
    f"--config={pathlib.Path(__file__).parents[1] / 'testdata' / 'tiny_pretrain.py'}",
    f"--config.cache_dir={config.cache_dir}",
  ]
  module.main([*arguments, "--dry-run"])
  assert config.cache_dir in capsys.readouterr().out
  assert not pathlib.Path(config.cache_dir).exists()
  module.main(arguments)
  lines = capsys.readouterr().out.splitlines()
  assert len(lines) == 6
  folder = pathlib.Path(lines[-1].removeprefix("folder").strip())
  assert Prepared.open(folder).description["name"] == "nesting"


def test_the_command_wants_a_corpus():
  config = pathlib.Path(__file__).parents[1] / "testdata" / "tiny.py"
  with pytest.raises(UserError, match="corpus"):
    module.main(["prepare", f"--config={config}"])


def test_a_large_corpus_says_that_its_order_is_computed(config, monkeypatch):
  """A corpus of an earlier version does not say so, and keeps its order."""
  small = prepare(config)
  assert "order" not in small.description
  total = small.description["statistics"]["parts"]["train_24"]["instances"]
  most = -(-total // 2)  # in one of two draws
  monkeypatch.setattr(description, "LARGE", most - 5)
  config.cache_dir += "_large"
  large = prepare(config)
  assert large.description.pop("order") == "computed"
  assert large.description == small.description
  monkeypatch.setattr(description, "LARGE", most)
  config.cache_dir += "_small"
  assert "order" not in prepare(config).description


def test_the_order_of_a_corpus_is_that_of_its_description(config):
  prepared = prepare(config)
  prepared.description["order"] = "computed"

  def batch(records):
    return next(records.batches(first=0, last=1, rows=np.arange(8), batch_size=8, seed=0))["ids"]

  changed = batch(prepared.records("train", 24))
  assert (changed != batch(Prepared.open(prepared.directory).records("train", 24))).any()
