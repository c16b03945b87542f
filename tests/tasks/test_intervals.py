"""Intervals by hand, by SciPy's own bootstrap, and by what they must be for any data."""

import math

import numpy as np
import pytest
import scipy.stats

from discipline_jax.metrics import score
from discipline_jax.tasks.intervals import certainty


def wilson(right: int, total: int) -> list[float]:
  """Returns the roots of (p - right/total)^2 = z^2 p (1 - p) / total, times 100."""
  z = 1.959963984540054
  share, square = right / total, z * z / total
  middle, half = share + square / 2, z * math.sqrt(share * (1 - share) / total + square / total / 4)
  return [100 * (middle - half) / (1 + square), 100 * (middle + half) / (1 + square)]


@pytest.mark.parametrize(("right", "total"), [(2, 3), (3, 3), (0, 5), (81, 100), (9990, 10000)])
def test_accuracy_has_wilsons_interval(right, total):
  labels = np.zeros(total, int)
  predicted = (np.arange(total) >= right).astype(int)
  one = certainty("accuracy", labels, predicted)
  assert one.samples == total
  np.testing.assert_allclose(one.interval, wilson(right, total), atol=1e-9)


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_a_correlation_has_the_interval_of_scipys_bootstrap(metric):
  rng = np.random.default_rng(3)
  labels = rng.normal(size=80)
  predicted = labels + rng.normal(size=80)
  correlation = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[metric]
  expected = scipy.stats.bootstrap(
    (labels, predicted),
    lambda x, y: correlation(x, y).statistic,
    paired=True,
    vectorized=False,
    n_resamples=1000,
    method="percentile",
    rng=7,
  ).confidence_interval
  one = certainty(metric, labels, predicted)
  # Both are draws: the ends of a percentile interval of 1,000 resamples spread by about a point.
  np.testing.assert_allclose(one.interval, 100 * np.array(expected), atol=4)
  assert one.constant == 0
  assert one.balanced_accuracy is None


@pytest.mark.parametrize(
  ("metric", "classes"), [("f1", 2), ("macro_f1", 4), ("mcc", 2), ("mcc", 5)]
)
def test_scores_of_classes_have_the_interval_of_resampled_samples(metric, classes):
  """Resamples the samples themselves, and scores each resample with `score`."""
  rng = np.random.default_rng(classes)
  labels = rng.integers(classes, size=60)
  predicted = np.where(rng.random(60) < 0.6, labels, rng.integers(classes, size=60))
  samples = rng.integers(60, size=(300, 60))
  scores = [score(metric, labels[chosen], predicted[chosen]) for chosen in samples]
  expected = np.quantile(scores, [0.025, 0.975])
  np.testing.assert_allclose(certainty(metric, labels, predicted).interval, expected, atol=5)


@pytest.mark.parametrize("metric", ["f1", "macro_f1", "mcc"])
def test_a_score_far_from_chance_has_an_interval_around_it(metric):
  """With 80% right of each of two classes F1 is 80 and MCC 60; 400 samples leave about 4 and 8 points each way."""
  labels = np.arange(400) % 2
  predicted = np.where(np.arange(400) % 10 < 2, 1 - labels, labels)
  low, high = certainty(metric, labels, predicted).interval
  middle, half = (60, 8) if metric == "mcc" else (80, 4)
  assert middle - half - 1.5 < low < middle - half + 1.5
  assert middle + half - 1.5 < high < middle + half + 1.5


@pytest.mark.parametrize("metric", ["f1", "macro_f1", "mcc"])
def test_no_interval_if_resampling_changes_nothing(metric):
  labels = np.arange(40) % 2
  one = certainty(metric, labels, labels)
  assert one.interval is None
  assert one.balanced_accuracy == 100


def test_correlation_on_three_samples_tells_nothing():
  one = certainty("pearson", np.array([1.0, 2, 3]), np.array([1.0, 2, 3.5]))
  assert one.interval[0] <= one.constant


@pytest.mark.parametrize(
  ("metric", "constant"), [("accuracy", 60), ("f1", 4 / 7 * 100), ("macro_f1", 37.5), ("mcc", 0)]
)
def test_one_answer_for_all(metric, constant):
  """Of five samples two are of class 1: always 1 has F1 2 * 2 / (5 + 2), always 0 has (3 / 4 + 0) / 2 as macro F1."""
  labels = np.array([0, 0, 0, 1, 1])
  assert certainty(metric, labels, np.array([0, 1, 0, 1, 0])).constant == pytest.approx(constant)


def test_balanced_accuracy():
  """All of the eight of one class and half of the two of the other are right: 75, where accuracy is 90."""
  labels = np.array([0] * 8 + [1] * 2)
  one = certainty("accuracy", labels, np.array([0] * 8 + [1, 0]))
  assert one.balanced_accuracy == pytest.approx(75)
  assert one.unbalanced
  assert not certainty("accuracy", labels[4:], labels[4:]).unbalanced  # four to two
