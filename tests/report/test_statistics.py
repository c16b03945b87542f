"""Intervals by hand, against SciPy called directly, and by what they must be for equal models."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from discipline_jax import metrics
from discipline_jax.report.statistics import (
  adjusted_p_values,
  paired_bootstrap,
  paired_interval,
  paired_p_value,
  probability_of_improvement,
  task_interval,
)

ACCURACY = functools.partial(metrics.resampled, "accuracy")


def test_students_interval_by_hand():
  """Differences 1, 2, 6: mean 3, variance (4 + 1 + 9) / 2 = 7; the quantile for two degrees of freedom is known."""
  difference, low, high = paired_interval([11.0, 22.0, 36.0], [10.0, 20.0, 30.0])
  # Student's distribution of two degrees of freedom has the quantile c sqrt(2 / (1 - c^2)), where c = 2 p - 1.
  quantile = 0.95
  half = quantile * math.sqrt(2 / (1 - quantile**2)) * math.sqrt(7 / 3)
  assert difference == pytest.approx(3, abs=1e-6)
  assert (low, high) == pytest.approx((3 - half, 3 + half), abs=1e-6)


def test_students_interval_of_two_seeds_by_hand():
  """With one degree of freedom Student's distribution is Cauchy's, with quantile tan(pi (p - 1/2))."""
  assert paired_interval([5.0, 9.0], [4.0, 6.0], level=0.9) == pytest.approx(
    (2, 2 - math.tan(math.pi * 0.45), 2 + math.tan(math.pi * 0.45)), abs=1e-6
  )


def test_splice_with_minilm():
  """RESULTS.md: +10.3 ± 10.2 from these three seeds."""
  difference, low, high = paired_interval([96.875, 97.5, 94.6875], [90.9375, 83.4375, 83.75])
  assert difference == pytest.approx(10.3125)
  assert (high - low) / 2 == pytest.approx(10.18, abs=0.01)


@pytest.mark.parametrize(("a", "b"), [([1.0], [2.0]), ([1.0, 2.0], [1.0]), ([], [])])
def test_one_seed_has_no_interval(a, b):
  for function in (paired_interval, paired_p_value):
    with pytest.raises(ValueError, match="seeds"):
      function(a, b)


def test_the_p_value_is_scipys_and_belongs_to_the_interval():
  rng = np.random.default_rng(0)
  a, b = rng.normal(size=(2, 4))
  p_value = paired_p_value(a, b)
  assert p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, abs=1e-12)
  _, low, high = paired_interval(a, b, level=1 - p_value)
  assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)


def test_equal_differences_are_no_proof():
  assert math.isnan(paired_p_value([90.0, 95.0], [85.0, 90.0]))
  assert paired_interval([90.0, 95.0], [85.0, 90.0]) == (5, 5, 5)


def test_two_equal_models_seldom_differ():
  """1,000 studies of three seeds: a 95% interval leaves 0 out in about 5% of them; 3 to 7% is four deviations."""
  rng = np.random.default_rng(1)
  # Seeds share their split, which moves both scores alike, and 400 samples are scored.
  rates = np.clip(0.8 + rng.normal(0, 0.03, (1000, 3)), 0, 1)
  scores = 100 * rng.binomial(400, rates, (2, 1000, 3)) / 400
  significant = 0
  for a, b in scores.transpose(1, 0, 2):
    _, low, high = paired_interval(a, b)
    significant += not low <= 0 <= high
  assert 30 <= significant <= 70


def test_the_bootstrap_of_one_seed_is_scipys():
  """The same draw of the samples, scored one resample after the other by scikit-learn."""
  rng = np.random.default_rng(2)
  labels = rng.integers(3, size=40)
  a, b = (
    np.where(rng.random(40) < share, labels, rng.integers(3, size=40)) for share in (0.8, 0.5)
  )
  result = paired_bootstrap(
    functools.partial(metrics.resampled, "mcc"),
    labels[None],
    a[None],
    b[None],
    resamples=200,
    seed=5,
  )

  def difference(chosen):
    own, other = (metrics.score("mcc", labels[chosen], one[chosen]) for one in (a, b))
    return own - other

  expected = stats.bootstrap(
    (np.arange(40),), difference, n_resamples=200, vectorized=False, method="percentile", rng=5
  ).confidence_interval
  assert result == pytest.approx((difference(np.arange(40)), *expected), abs=1e-9)


def test_the_bootstrap_over_many_samples_is_the_normal_interval():
  """A right in 90 of 100 samples, b in 60 of them, apart: by hand the difference of each sample has mean 0.3."""
  labels = np.zeros((1, 4000), int)
  a = (np.arange(4000) % 10 >= 9).astype(int)[None]
  b = (np.arange(4000) % 10 < 4).astype(int)[None]
  difference, low, high = paired_bootstrap(ACCURACY, labels, a, b, resamples=2000, seed=0)
  # 4 of 10 samples differ by +1, 1 by -1: variance 0.5 - 0.09
  half = 100 * 1.96 * math.sqrt(0.41 / 4000)
  assert difference == pytest.approx(30)
  assert (low, high) == pytest.approx((30 - half, 30 + half), abs=0.15)


def test_seeds_of_the_same_samples_are_resampled_together():
  """Three copies of one seed tell no more than one; three seeds with splits of their own tell sqrt(3) times more."""
  rng = np.random.default_rng(3)
  labels = np.zeros((1, 500), int)
  a, b = ((rng.random((1, 500)) < share).astype(int) for share in (0.2, 0.3))
  thrice = [np.repeat(one, 3, axis=0) for one in (labels, a, b)]
  same = np.tile(np.arange(500), (3, 1))
  own = np.arange(1500).reshape(3, 500)

  def width(arrays, units):
    _, low, high = paired_bootstrap(ACCURACY, *arrays, resamples=2000, seed=0, units=units)
    return high - low

  one = width((labels, a, b), None)
  assert width(thrice, same) == pytest.approx(one)
  assert width(thrice, None) == pytest.approx(one)
  assert width(thrice, own) == pytest.approx(one / math.sqrt(3), rel=0.06)


def test_the_bootstrap_of_equal_models_is_zero():
  labels = np.arange(10)[None] % 2
  assert paired_bootstrap(ACCURACY, labels, labels, labels, resamples=50, seed=0) == (0, 0, 0)
  with pytest.raises(ValueError, match="two or more"):
    paired_bootstrap(ACCURACY, *[labels[:, :1]] * 3, resamples=50, seed=0)


def test_tasks_are_strata():
  """No seed of one task stands in for one of another: tasks without spread leave no interval."""
  differences = [np.array([1.0, 1, 1]), np.array([5.0, 5])]
  assert task_interval(differences, resamples=100, seed=0) == (3, 3, 3)
  mean, low, high = task_interval(
    [np.array([0.0, 2]), np.array([10.0, 20])], resamples=4000, seed=0
  )
  # The mean of two draws from {0, 2} and of two from {10, 20}, averaged: lowest (0 + 10) / 2, with a chance of 1/16.
  assert (mean, low, high) == (8, 5, 11)


def test_the_probability_of_improvement_is_mann_whitneys():
  rng = np.random.default_rng(4)
  a = [rng.integers(5, size=4).astype(float) for _ in range(3)]
  b = [rng.integers(4, size=3).astype(float) for _ in range(3)]
  expected = [stats.mannwhitneyu(x, y).statistic / 12 for x, y in zip(a, b, strict=True)]
  probability, low, high = probability_of_improvement(a, b, resamples=500, seed=0)
  assert probability == pytest.approx(np.mean(expected), abs=1e-12)
  assert 0 <= low < probability < high <= 1
  turned, turned_low, turned_high = probability_of_improvement(b, a, resamples=500, seed=0)
  assert turned == pytest.approx(1 - probability)
  assert (turned_low, turned_high) == pytest.approx((1 - high, 1 - low), abs=0.1)


def test_a_bootstrap_needs_two_tasks():
  for function in (
    lambda: task_interval([np.array([1.0, 2])], resamples=10, seed=0),
    lambda: probability_of_improvement([np.zeros(2)], [np.zeros(2)], resamples=10, seed=0),
  ):
    with pytest.raises(ValueError, match="task"):
      function()


def test_benjamini_hochberg_by_hand():
  """Of three tests 0.01 * 3 / 1, 0.04 * 3 / 3 and 0.03 * 3 / 2; a smaller p-value never gets a larger one."""
  p_values = np.array([0.04, np.nan, 0.01, 0.03])
  np.testing.assert_allclose(adjusted_p_values(p_values), [0.04, np.nan, 0.03, 0.04], atol=1e-12)
  assert np.isnan(adjusted_p_values(np.array([np.nan]))).all()
