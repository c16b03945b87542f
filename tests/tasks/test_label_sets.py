"""Tests several labels for each sample: trained on, scored and written, with values from hand and scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

from discipline_jax.errors import UserError
from discipline_jax.metrics import score
from discipline_jax.models import Classifier
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.answers import from_json
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.label_sets import LabelSet

NAMES = ("x", "y", "z")
ANSWER = LabelSet(NAMES)
LAYOUT = Layout(np.array([5, 5], np.int32), 1)
ALONE = np.arange(6, dtype=np.int32)


def test_labels_of_a_table():
  answer = LabelSet.fit({"train": [("10", "9"), ()], "test": [("9",)]}, "macro_f1", "a.csv")
  assert answer == LabelSet(("9", "10"), "macro_f1")
  assert answer.encode(("10",)).tolist() == [0, 1]
  assert answer.encode(()).tolist() == [0, 0]
  assert LabelSet.keys(("x", "y")) == {"x", "y"}
  assert from_json(answer.to_json()) == answer


@pytest.mark.parametrize("labels", [[(), ()], [("x",), ()]])
def test_one_label_is_a_classification(labels):
  with pytest.raises(UserError, match="a.csv"):
    LabelSet.fit({"all": labels}, "micro_f1", "a.csv")


def test_targets_and_losses():
  examples = [Example("A", np.array([1, 0, 1], np.int8)), Example("C", np.zeros(3, np.int8))]
  targets = ANSWER.targets(examples, LAYOUT)
  assert ANSWER.head == Classifier(3)
  np.testing.assert_array_equal(ANSWER.counts(targets), [3, 3])
  outputs = np.log(np.array([[3, 1, 1], [1 / 3, 1, 1]], np.float32))  # probabilities 3/4, 1/2; 1/4
  losses = ANSWER.losses(jnp.asarray(outputs), targets)
  expected = [-np.log(3 / 4) - 2 * np.log(1 / 2), -np.log(3 / 4) - 2 * np.log(1 / 2)]
  np.testing.assert_allclose(losses, expected, rtol=1e-6)
  measured = ANSWER.measure(outputs, targets, ALONE[:2])
  assert measured.loss == pytest.approx(np.mean(expected) / 3)


def cases():
  rng = np.random.default_rng(0)
  labels = (rng.random((6, 3)) < 0.4).astype(np.int8)
  logits = rng.normal(size=(6, 3)).astype(np.float32)
  yield "random", labels, logits
  yield "a_label_that_none_has", labels * np.array([1, 0, 1], np.int8), logits
  yield "a_label_that_all_have", labels | np.array([0, 1, 0], np.int8), logits
  yield "no_label_at_all", 0 * labels, logits
  yield "nothing_predicted", labels, -np.abs(logits)
  yield "equal_logits", labels, np.round(logits)


CASES = {name: pair for name, *pair in cases()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_scikit_learn(case):
  labels, logits = CASES[case]
  expected = {
    "micro_f1": sklearn.metrics.f1_score(labels, logits > 0, average="micro", zero_division=0),
    "macro_f1": sklearn.metrics.f1_score(labels, logits > 0, average="macro", zero_division=0),
    "average_precision": sklearn.metrics.average_precision_score(labels, logits),
  }
  for metric, value in expected.items():
    measured = LabelSet(NAMES, metric).measure(logits, {"labels": labels}, ALONE)
    assert measured.score == pytest.approx(100 * value)
    assert measured.measures[metric] == pytest.approx(100 * value)
    assert score(metric, measured.labels, measured.predicted) == pytest.approx(100 * value)
  for i, own in enumerate(measured.measures["labels"].values()):
    one = labels[:, i], logits[:, i]
    assert own["number"] == labels[:, i].sum()
    assert own["f1"] == pytest.approx(
      100 * sklearn.metrics.f1_score(one[0], one[1] > 0, zero_division=0)
    )
    assert own["average_precision"] == pytest.approx(
      100 * sklearn.metrics.average_precision_score(*one)
    )
  by_decisions = LabelSet(NAMES).measure(logits, {"labels": labels}, ALONE)
  assert by_decisions.collapsed == (case == "nothing_predicted")
  assert not measured.collapsed


def test_logits_that_are_the_same_for_all_have_collapsed():
  """Although no label is predicted, their order tells more than chance if they differ between samples."""
  labels = np.array([[1, 0], [0, 1], [0, 0]], np.int8)
  logits = np.array([[-3, -5], [-4, -4], [-4, -5]], np.float32)
  for metric, expected in (("average_precision", False), ("micro_f1", True), ("macro_f1", True)):
    measured = LabelSet(NAMES[:2], metric).measure(logits, {"labels": labels}, ALONE[:3])
    assert measured.collapsed == expected
  answer = LabelSet(NAMES[:2], "average_precision")
  level = -4 + 0.001 * logits
  assert answer.measure(level, {"labels": labels}, ALONE[:3]).collapsed


@pytest.mark.parametrize(("name", "is_told"), [("a, b", True), ("a|b", True), ("a, c", False)])
def test_a_label_that_is_made_of_others_is_told(name, is_told, caplog):
  answer = LabelSet.fit({"all": [("a",), ("b",), (name,)]}, "micro_f1", "a.csv")
  assert answer.labels == ("a", name, "b")
  assert ("made of other labels" in caplog.text) == is_told
  assert (repr(name) in caplog.text) == is_told


def test_lines():
  assert ANSWER.columns == ["prediction", "p_x", "p_y", "p_z"]
  outputs = np.log(np.array([[3, 1 / 3, 3], [1 / 3, 1 / 3, 1 / 3]], np.float32))
  (first,), (second,) = ANSWER.rows(outputs, LAYOUT)
  assert (first[0], second[0]) == ("x;z", ";")
  np.testing.assert_allclose(first[1:], [0.75, 0.25, 0.75], rtol=1e-6)
  targets = {"labels": np.array([[1, 0, 1], [0, 0, 0]], np.int8)}
  assert ANSWER.describe(targets) == {"labels": "x 1, y 0, z 1; 1 samples have none"}
