"""Metrics against scikit-learn and SciPy called directly, and votes worked out by hand."""

import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from discipline_jax import metrics

CLASS_CASES = {
  "random": np.random.default_rng(0).integers(0, 2, (2, 200)),
  "three_classes": np.random.default_rng(1).integers(0, 3, (2, 200)),
  "all_right": np.tile(np.arange(50) % 2, (2, 1)),
  "all_wrong": np.stack([np.arange(50) % 2, (np.arange(50) + 1) % 2]),
  "a_class_only_predicted": np.array([[0, 0, 1, 1], [0, 2, 1, 2]]),
  "a_class_never_predicted": np.array([[0, 1, 2, 1], [0, 1, 1, 1]]),
  "two_samples": np.array([[0, 1], [1, 0]]),
}
VALUE_CASES = {
  "random": np.random.default_rng(0).normal(size=(2, 100)),
  "single_precision": np.random.default_rng(1).normal(size=(2, 100)).astype(np.float32),
  "ties": np.random.default_rng(2).integers(0, 4, (2, 60)).astype(np.float32),
  "monotone": np.stack([np.arange(20.0), np.exp(np.arange(20.0))]),
  "falling": np.stack([np.arange(20.0), -np.arange(20.0)]),
  "far_away": np.stack([np.arange(5.0), 1e12 * np.arange(5.0) ** 2]),
  "two_samples": np.array([[0.0, 1.0], [5.0, 2.0]]),
}


def two_classes(case: str) -> bool:
  return CLASS_CASES[case].max() < 2


@pytest.mark.parametrize("case", CLASS_CASES)
def test_classes_as_scikit_learn_has_them(case):
  labels, predicted = CLASS_CASES[case]
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    expected = {
      "accuracy": sklearn.metrics.accuracy_score(labels, predicted),
      "macro_f1": sklearn.metrics.f1_score(labels, predicted, average="macro", zero_division=0),
      "mcc": sklearn.metrics.matthews_corrcoef(labels, predicted),
    }
    if two_classes(case):
      expected["f1"] = sklearn.metrics.f1_score(labels, predicted, pos_label=1, zero_division=0)
  for name, value in expected.items():
    assert metrics.score(name, labels, predicted) == pytest.approx(100 * value, abs=1e-10), name


@pytest.mark.parametrize("case", VALUE_CASES)
def test_values_as_scipy_has_them(case):
  labels, predicted = VALUE_CASES[case]
  spearman = scipy.stats.spearmanr(labels, predicted).statistic
  pearson = scipy.stats.pearsonr(labels, predicted).statistic
  assert metrics.score("spearman", labels, predicted) == pytest.approx(100 * spearman, rel=1e-12)
  assert metrics.score("pearson", labels, predicted) == pytest.approx(100 * pearson, rel=1e-12)


def test_by_hand():
  labels, predicted = np.array([0, 1, 1, 1, 0]), np.array([0, 1, 1, 0, 1])
  assert metrics.score("accuracy", labels, predicted) == pytest.approx(60)
  # class 1: 2 found, 1 missed, 1 too many; class 0: 1, 1, 1
  assert metrics.score("f1", labels, predicted) == pytest.approx(100 * 4 / 6)
  assert metrics.score("macro_f1", labels, predicted) == pytest.approx(50 * (4 / 6 + 2 / 4))
  assert metrics.score("mcc", labels, predicted) == pytest.approx(100 * (2 * 1 - 1 * 1) / 6)
  values = np.array([1.0, 2.0, 3.0]), np.array([1.0, 9.0, 2.0])
  assert metrics.score("spearman", *values) == pytest.approx(50)  # 1 - 6 * (0 + 1 + 1) / (3 * 8)
  # covariance 1, variances 2 and 38
  assert metrics.score("pearson", *values) == pytest.approx(100 / np.sqrt(2 * 38))


@pytest.mark.parametrize("metric", ["mcc", "spearman", "pearson"])
@pytest.mark.parametrize("constant", ["predictions", "labels"])
def test_a_correlation_with_something_constant_is_0(metric, constant):
  varied, same = np.arange(6) % 2, np.ones(6, int)
  pair = (varied, same) if constant == "predictions" else (same, varied)
  assert metrics.score(metric, *pair) == 0
  assert metrics.undefined(metric, *pair) == constant


@pytest.mark.parametrize("metric", ["accuracy", "f1", "macro_f1"])
def test_constant_predictions_are_nothing_special_elsewhere(metric):
  labels = np.array([0, 1, 1, 1])
  expected = {"accuracy": 75, "f1": 100 * 6 / 7, "macro_f1": 50 * 6 / 7}[metric]
  assert metrics.score(metric, labels, np.ones(4, int)) == pytest.approx(expected)
  assert metrics.undefined(metric, labels, np.ones(4, int)) is None


def test_f1_is_0_where_class_1_is_neither_there_nor_predicted():
  assert metrics.score("f1", np.zeros(3, int), np.zeros(3, int)) == 0


@pytest.mark.parametrize("metric", ["spearman", "pearson"])
def test_one_sample_has_no_correlation(metric):
  assert metrics.score(metric, np.array([1.0]), np.array([2.0])) == 0
  assert metrics.undefined(metric, np.array([1.0]), np.array([2.0])) == "predictions"


def test_no_warning_of_the_libraries_reaches_the_user():
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    labels, predicted = CLASS_CASES["a_class_only_predicted"]
    for name in ("accuracy", "macro_f1", "mcc"):
      metrics.score(name, labels, predicted)
    # so close to constant that SciPy warns
    metrics.score("pearson", np.arange(3.0), np.array([1.0, 1.0, 1.0 + 1e-15]))


def test_every_metric_is_of_classes_or_of_values():
  assert set(metrics.CLASS_METRICS) == {"accuracy", "f1", "macro_f1", "mcc"}
  assert set(metrics.VALUE_METRICS) == {"spearman", "pearson"}


# piece 7: 2, 0, 2, 1; piece 3: 1, 0; piece 5: 4
CLASSES = np.array([2, 1, 0, 0, 4, 2, 1])
PIECES = np.array([7, 3, 7, 3, 5, 7, 7])


def test_a_majority_decides_and_of_equals_the_lowest_class():
  assert metrics.vote(CLASSES, PIECES, "majority") == {3: 0, 5: 4, 7: 2}
  assert metrics.vote(np.array([9, 2, 9, 2, 1]), np.zeros(5, int), "majority") == {0: 2}


def test_or_the_first_part_decides():
  assert metrics.vote(CLASSES, PIECES, "first") == {3: 1, 5: 4, 7: 2}


RESAMPLES = [
  *(
    (name, CLASS_CASES[case])
    for case in CLASS_CASES
    for name in metrics.CLASS_METRICS
    if name != "f1" or two_classes(case)
  ),
  *((name, VALUE_CASES[case]) for case in VALUE_CASES for name in metrics.VALUE_METRICS),
]


@pytest.mark.parametrize(("metric", "pair"), RESAMPLES)
def test_resamples_have_the_score_of_the_samples_repeated(metric, pair):
  labels, predicted = pair
  size = len(labels)
  counts = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), 20)
  counts[0] = 1  # the samples themselves
  counts[1] = np.eye(size, dtype=int)[0] * size  # one of them alone
  expected = [
    metrics.score(metric, np.repeat(labels, times), np.repeat(predicted, times)) for times in counts
  ]
  found = metrics.resampled(metric, labels, predicted, counts)
  # SciPy computes Pearson's correlation in the precision of the values.
  np.testing.assert_allclose(found, expected, atol=1e-4 if pair.dtype == np.float32 else 1e-7)
