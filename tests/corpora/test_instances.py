"""Instances: every token's place in its document tells where a segment comes from."""

import numpy as np
import pytest

from discipline_jax.corpora.instances import Instance, _cut, make_instances


def documents(number=40, seed=0):
  """Token d * 10,000 + i is the i-th of document d."""
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

  def test_a_seed_gives_one_draw(self, pairing, length):
    first, again, other = (
      list(make_instances(documents(), length=length, pairing=pairing, seed=seed))
      for seed in (0, 0, 1)
    )
    assert len(first) == len(again)
    for ours, theirs in zip(first, again, strict=True):
      np.testing.assert_array_equal(ours.first, theirs.first)
      assert ours.label == theirs.label
    same = [len(one.first) for one in first] == [len(one.first) for one in other]
    assert same == (pairing == "none")  # which draws nothing


@pytest.mark.parametrize("length", [8, 64, 512])
def test_without_pairs_every_token_comes_once(length):
  corpus = documents()
  seen = np.concatenate(
    [one.first for one in make_instances(corpus, length=length, pairing="none", seed=0)]
  )
  np.testing.assert_array_equal(seen, np.concatenate([np.concatenate(one) for one in corpus]))


def test_next_sentences_follow_or_are_of_another_document():
  labels = []
  for one in make_instances(documents(200), length=64, pairing="next_sentence", seed=0):
    labels.append(one.label)
    same = one.first[0] // 10_000 == one.second[0] // 10_000
    assert same == (one.label == 0)
    if one.label == 0:
      assert one.second[0] > one.first[-1]
  # More than half: the last sentence of a document has no follower.
  assert 0.5 < np.mean(labels) < 0.6


def test_orders_are_swapped_in_half_of_the_pairs():
  labels = []
  for one in make_instances(documents(200), length=64, pairing="order", seed=0):
    labels.append(one.label)
    assert one.first[0] // 10_000 == one.second[0] // 10_000
    assert (one.second[0] < one.first[0]) == (one.label == 1)
  assert np.mean(labels) == pytest.approx(0.5, abs=0.03)


def test_what_another_document_displaced_is_used_later():
  """All sentences come up in their own document, but the few that are cut away where both segments are too long."""
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
  # A short target is gathered in whole sentences of ten.
  assert np.mean(lengths < 120) == pytest.approx(0.1, abs=0.04)
  assert lengths.max() == 125


@pytest.mark.parametrize("seed", range(30))
def test_cutting_takes_one_by_one_from_the_longer(seed):
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
    ({"pairing": "both"}, "pairing 'both' is not one of: none, next_sentence, order"),
    ({"length": 4}, "rows of 4 tokens leave no room for text; give at least 5"),
    ({"documents": documents(1)}, "one document has no other to take a next sentence from"),
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
