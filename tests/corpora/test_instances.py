"""Tests instances of documents whose tokens are numbered by place, so that segments can be traced back."""

import numpy as np
import pytest

from discipline_jax.corpora.instances import Instance, _cut, make_instances


def documents(number=40, seed=0):
  """Returns random documents; token d * 10,000 + i is the i-th token of document d."""
  rng = np.random.default_rng(seed)
  result = []
  for d in range(number):
    lengths = rng.integers(1, 30, rng.integers(1, 40))
    tokens = d * 10_000 + np.arange(lengths.sum())
    result.append(np.split(tokens, np.cumsum(lengths)[:-1]))
  return result


def is_run(tokens):
  return (np.diff(tokens) == 1).all()


@pytest.mark.parametrize("pairing", ["none", "next_sentence", "order"])
@pytest.mark.parametrize("length", [8, 64, 512])
class TestEveryPairing:
  def test_rows_fit_and_segments_are_runs_of_a_document(self, pairing, length):
    special = 2 if pairing == "none" else 3
    for one in make_instances(documents(), length=length, pairing=pairing, seed=0):
      segments = [one.first] if one.second is None else [one.first, one.second]
      assert len(segments) == special - 1
      assert all(len(segment) for segment in segments)
      assert sum(map(len, segments)) + special <= length
      assert all(is_run(segment) for segment in segments)

  def test_a_seed_always_gives_the_same_instances(self, pairing, length):
    first, again, other = (
      list(make_instances(documents(), length=length, pairing=pairing, seed=seed))
      for seed in (0, 0, 1)
    )
    assert len(first) == len(again)
    for ours, theirs in zip(first, again, strict=True):
      np.testing.assert_array_equal(ours.first, theirs.first)
      assert ours.label == theirs.label
    same = [len(one.first) for one in first] == [len(one.first) for one in other]
    assert same == (pairing == "none")  # in which nothing is random


@pytest.mark.parametrize("length", [8, 64, 512])
def test_without_pairs_every_token_comes_once(length):
  corpus = documents()
  seen = np.concatenate(
    [one.first for one in make_instances(corpus, length=length, pairing="none", seed=0)]
  )
  np.testing.assert_array_equal(seen, np.concatenate([np.concatenate(one) for one in corpus]))


def test_next_sentences_follow_or_are_from_another_document():
  labels = []
  for one in make_instances(documents(200), length=64, pairing="next_sentence", seed=0):
    labels.append(one.label)
    same = one.first[0] // 10_000 == one.second[0] // 10_000
    assert same == (one.label == 0)
    if one.label == 0:
      assert one.second[0] > one.first[-1]
  # More than half, because nothing follows the last sentence of a document.
  assert 0.5 < np.mean(labels) < 0.6


def test_orders_are_swapped_in_half_of_the_pairs():
  labels = []
  for one in make_instances(documents(200), length=64, pairing="order", seed=0):
    labels.append(one.label)
    assert one.first[0] // 10_000 == one.second[0] // 10_000
    assert (one.second[0] < one.first[0]) == (one.label == 1)
  assert np.mean(labels) == pytest.approx(0.5, abs=0.03)


def test_sentences_that_another_document_replaced_are_used_later():
  """Every sentence is used in its own document, except for the few that are truncated with a long pair."""
  corpus = documents(60)
  seen = set()
  for one in make_instances(corpus, length=128, pairing="next_sentence", seed=3):
    seen.update(one.first.tolist())
    seen.update(one.second.tolist() if one.label == 0 else ())
  sentences = [sentence for document in corpus for sentence in document]
  found = np.mean([any(token in seen for token in sentence.tolist()) for sentence in sentences])
  assert found > 0.97


def test_few_are_short():
  corpus = [[np.arange(10)] * 400 for _ in range(20)]
  lengths = np.array(
    [
      len(one.first) + len(one.second)
      for one in make_instances(corpus, length=128, pairing="order", seed=0)
    ]
  )
  # Short instances have whole sentences of ten tokens, so that some of them are nearly full.
  assert np.mean(lengths < 120) == pytest.approx(0.1, abs=0.04)
  assert lengths.max() == 125


@pytest.mark.parametrize("seed", range(30))
def test_cutting_removes_token_by_token_from_the_longer_segment(seed):
  rng = np.random.default_rng(seed)
  first, second = np.arange(rng.integers(1, 60)), np.arange(rng.integers(1, 60))
  room = int(rng.integers(2, 70))
  expected = [len(first), len(second)]
  while sum(expected) > room:
    expected[0 if expected[0] > expected[1] else 1] -= 1
  parts = _cut(first, second, room, rng)
  assert [len(part) for part in parts] == expected
  assert all(is_run(part) for part in parts)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"pairing": "both"}, "'both'.* none, next_sentence, order$"),
    ({"length": 4}, r"\b4 tokens.*\b5$"),
    ({"documents": documents(1)}, r"'next_sentence'.*\b1\b.*\b2\b"),
  ],
)
def test_mistakes(changes, message):
  arguments = {"documents": documents(), "length": 64, "pairing": "next_sentence"} | changes
  with pytest.raises(ValueError, match=message):
    list(make_instances(arguments.pop("documents"), **arguments, seed=0))


def test_a_document_of_one_word_has_no_order():
  one = [[np.array([5])], [np.array([6]), np.array([7])]]
  (pair,) = make_instances(one, length=8, pairing="order", seed=0)
  assert isinstance(pair, Instance)
  assert sorted([*pair.first, *pair.second]) == [6, 7]
