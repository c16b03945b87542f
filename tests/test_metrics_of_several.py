"""Tests scores of samples with several positions or labels: samples that are drawn again are repeated as wholes."""

import numpy as np
import pytest

from discipline_jax import label_metrics, metrics
from discipline_jax.tasks.intervals import certainty

RNG = np.random.default_rng(5)
TAGS = RNG.integers(-1, 3, (8, 6)).astype(np.int8)
TAGS[3] = -1  # a sample without a scored position
GUESSES = np.where(
  RNG.random(TAGS.shape) < 0.5, np.maximum(TAGS, 0), RNG.integers(3, size=TAGS.shape)
).astype(np.int8)
VALUES = np.where(TAGS < 0, np.nan, RNG.normal(size=TAGS.shape)).astype(np.float32)
NEAR = np.where(TAGS < 0, np.nan, np.round(VALUES + RNG.normal(size=TAGS.shape), 1)).astype(
  np.float32
)
SETS = (RNG.random((8, 4)) < 0.4).astype(np.int8)
LOGITS = np.round(RNG.normal(size=SETS.shape), 1).astype(np.float32)
CASES = [
  *((metric, TAGS, GUESSES) for metric in ("accuracy", "macro_f1", "mcc")),
  ("f1", np.minimum(TAGS, 1), np.minimum(GUESSES, 1)),
  *((metric, VALUES, NEAR) for metric in metrics.VALUE_METRICS),
  *((metric, SETS, LOGITS) for metric in label_metrics.LABEL_METRICS),
]


@pytest.mark.parametrize(("metric", "labels", "predicted"), CASES, ids=[str(c[0]) for c in CASES])
def test_resamples_have_the_score_of_the_samples_repeated(metric, labels, predicted):
  counts = np.random.default_rng(0).multinomial(8, np.full(8, 1 / 8), 20)
  counts[0] = 1
  expected = [
    metrics.score(metric, np.repeat(labels, times, axis=0), np.repeat(predicted, times, axis=0))
    for times in counts
  ]
  np.testing.assert_allclose(
    metrics.resampled(metric, labels, predicted, counts),
    expected,
    # SciPy computes Pearson's correlation in the precision of the values.
    atol=1e-10 if metric == "spearman" else 1e-4,
  )


@pytest.mark.parametrize("digits", [1, 8], ids=["many ties", "hardly any"])
def test_many_positions_are_sorted_once_for_all_resamples(digits, monkeypatch):
  rng = np.random.default_rng(0)
  labels = rng.normal(size=(300, 1000))
  predicted = np.round(labels + rng.normal(size=labels.shape), digits)
  labels[rng.random(labels.shape) < 0.1] = np.nan
  counts = rng.multinomial(300, np.full(300, 1 / 300), 40)
  sorts, argsort = [], np.argsort
  monkeypatch.setattr(np, "argsort", lambda *a, **k: sorts.append(a) or argsort(*a, **k))
  found = metrics.resampled("spearman", labels, predicted, counts)
  assert len(sorts) <= 3
  monkeypatch.undo()
  repeated = (np.repeat(one, counts[7], axis=0) for one in (labels, predicted))
  assert found[7] == pytest.approx(metrics.score("spearman", *repeated), abs=1e-10)


def alike(metric, samples=80, positions=10):
  """Returns labels and predictions that are right in all positions of a sample, or wrong in all."""
  rng = np.random.default_rng(3)
  right = rng.random((samples, 1)) < 0.6
  if metric in metrics.VALUE_METRICS:
    labels = rng.normal(size=(samples, positions)).astype(np.float32)
    return labels, np.where(right, labels, -labels).astype(np.float32)
  if metric in label_metrics.LABEL_METRICS:
    sets = (rng.random((samples, positions)) < 0.4).astype(np.int8)
    noise = rng.random(sets.shape) / 2
    return sets, (np.where(right, sets, 1 - sets) - 0.5 + noise - 0.25).astype(np.float32)
  number = 2 if metric == "f1" else 3
  labels = rng.integers(number, size=(samples, positions)).astype(np.int8)
  return labels, np.where(right, labels, (labels + 1) % number).astype(np.int8)


@pytest.mark.parametrize("metric", [case[0] for case in CASES])
def test_intervals_are_those_of_resampled_samples(metric):
  """If positions were drawn in place of samples, an interval would be about a third as wide."""
  labels, predicted = alike(metric)
  chosen = np.random.default_rng(1).integers(80, size=(400, 80))
  scores = [metrics.score(metric, labels[own], predicted[own]) for own in chosen]
  one = certainty(metric, labels, predicted)
  assert one.samples == 80
  ends = np.quantile(scores, [0.025, 0.975])
  np.testing.assert_allclose(one.interval, ends, atol=np.ptp(ends) / 8)


def test_positions_of_a_sample_are_not_independent():
  """Ten samples of 100 equal positions each say as much as ten samples of one position."""
  labels = np.ones((10, 100), np.int8)
  predicted = np.where(np.arange(10)[:, None] < 7, labels, 0).astype(np.int8)
  low, high = certainty("accuracy", labels, predicted).interval
  assert low <= 40
  assert high >= 90


@pytest.mark.parametrize("metric", label_metrics.LABEL_METRICS)
def test_the_best_constant_is_the_best_of_all_sets(metric):
  sets = np.array([[(i >> bit) & 1 for bit in range(4)] for i in range(16)]) * 2.0 - 1
  if metric == "average_precision":
    sets = np.zeros((1, 4))  # equal for all samples, whatever the numbers are
  best = max(
    metrics.score(metric, SETS, np.broadcast_to(one, SETS.shape).astype(np.float32)) for one in sets
  )
  assert certainty(metric, SETS, LOGITS).constant == pytest.approx(best)


def test_the_constant_of_tags_is_the_largest_class():
  one = certainty("accuracy", TAGS, GUESSES)
  counts = np.bincount(TAGS[TAGS >= 0])
  assert one.constant == pytest.approx(100 * counts.max() / counts.sum())
