"""Tests what each kind of answer makes of labels and outputs, with values from hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.models import Classifier
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.answers import KINDS, Class, Value, from_json
from discipline_jax.tasks.examples import Example

LAYOUT = Layout(np.array([5, 5, 5], np.int32), 1)
ALONE = np.arange(3, dtype=np.int32)
LABELS = ("no", "yes")
# Logits whose classes are 1, 0, 0; the probabilities of a row are 1/4 and 3/4, in some order, or halves.
LOGITS = np.log(np.array([[1, 3], [3, 1], [1, 1]], np.float32))


def examples(*labels):
  return [Example("ACG", label) for label in labels]


class TestClass:
  def test_targets_and_losses(self):
    answer = Class(LABELS)
    targets = answer.targets(examples(1, 1, 0), LAYOUT)
    assert targets["labels"].dtype == np.int32
    losses = answer.losses(jnp.asarray(LOGITS), targets)
    np.testing.assert_allclose(losses, -np.log([0.75, 0.25, 0.5]), rtol=1e-6)
    np.testing.assert_array_equal(answer.counts(targets), [1, 1, 1])
    np.testing.assert_array_equal(answer.strata(targets), [1, 1, 0])
    assert answer.head == Classifier(2)

  def test_measure(self):
    answer = Class(LABELS)
    measured = answer.measure(LOGITS, answer.targets(examples(1, 1, 0), LAYOUT), ALONE)
    assert measured.loss == pytest.approx(-np.log([0.75, 0.25, 0.5]).mean(), rel=1e-6)
    assert measured.score == pytest.approx(200 / 3)
    assert not measured.collapsed

  @pytest.mark.parametrize(("logits", "collapsed"), [(LOGITS, False), (LOGITS[:, ::-1] * 0, True)])
  def test_one_class_for_all_samples_is_a_collapse(self, logits, collapsed):
    answer = Class(LABELS)
    targets = answer.targets(examples(0, 0, 0), LAYOUT)
    assert answer.measure(logits, targets, ALONE).collapsed == collapsed

  @pytest.mark.parametrize(("vote", "score"), [("majority", 50), ("first", 100), (None, 100 / 3)])
  def test_groups_vote(self, vote, score):
    """Group 7 has the class 1 and predictions 1, 0, 0: a majority is wrong, the first one right; group 8 is right."""
    answer = Class(LABELS, vote=vote)
    logits = np.concatenate([LOGITS, LOGITS[2:]])
    groups = np.array([7, 7, 7, 8], np.int32)
    targets = answer.targets(examples(1, 1, 1, 0), LAYOUT)
    if vote is None:
      groups, logits, targets = ALONE, LOGITS, {"labels": targets["labels"][:3]}
    assert answer.measure(logits, targets, groups).score == pytest.approx(score)
    samples = np.array([31, 5, 9, 4], np.int32)[: len(groups)]
    assert answer.units(samples, groups).tolist() == ([7, 8] if vote else [31, 5, 9])

  def test_lines_of_predictions(self):
    answer = Class(LABELS)
    assert answer.columns == ["prediction", "p_no", "p_yes"]
    lines = list(answer.rows(LOGITS, LAYOUT))
    assert [[line[0] for line in sample] for sample in lines] == [["yes"], ["no"], ["no"]]
    expected = [[0.25, 0.75], [0.75, 0.25], [0.5, 0.5]]
    np.testing.assert_allclose([sample[0][1:] for sample in lines], expected, rtol=1e-6)

  def test_description(self):
    answer = Class(("no", "yes", "never"))
    assert answer.describe(answer.targets(examples(1, 1, 0), LAYOUT)) == {
      "classes": "no 1, yes 2, never 0"
    }
    assert answer.summary == "3 classes"

  def test_labels_of_a_table(self):
    answer = Class.fit({"train": ["10", "9"], "test": ["9"]}, "mcc", "a.csv")
    assert answer == Class(("9", "10"), "mcc")
    assert answer.encode("10") == 1

  def test_a_number_in_several_spellings_is_one_class(self):
    answer = Class.fit({"train": ["01", "2.5", "1"], "test": ["2.50", "1e0"]}, "mcc", "a.csv")
    assert answer == Class(("1", "2.5"), "mcc")
    assert list(map(answer.encode, ["01", "1", "1e0", "2.5", "2.50"])) == [0, 0, 0, 1, 1]

  @pytest.mark.parametrize("text", ["", "  ", "a\0b", "a\nb"])
  def test_what_is_no_label(self, text):
    with pytest.raises(UserError, match="a.csv:3"):
      Class.parse(text, "a.csv:3")


class TestValue:
  def test_targets_and_losses(self):
    answer = Value()
    targets = answer.targets(examples(0.5, -1, 2), LAYOUT)
    assert targets["labels"].dtype == np.float32
    outputs = np.array([[1.5], [-1], [0]], np.float32)
    np.testing.assert_allclose(answer.losses(jnp.asarray(outputs), targets), [1, 0, 4])
    np.testing.assert_array_equal(answer.counts(targets), [1, 1, 1])
    assert answer.head == Classifier(1)
    assert answer.labels == ()

  def test_measure(self):
    answer = Value("pearson")
    targets = answer.targets(examples(1, 2, 3), LAYOUT)
    measured = answer.measure(np.array([[3], [5], [7]], np.float32), targets, ALONE)
    assert measured.loss == pytest.approx((4 + 9 + 16) / 3)
    assert measured.score == pytest.approx(100)
    assert not measured.collapsed

  @pytest.mark.parametrize(("spread", "collapsed"), [(0.009, True), (0.011, False)])
  def test_nearly_one_value_for_all_samples_is_a_collapse(self, spread, collapsed):
    """Predictions that spread a hundredth as much as the labels, or less."""
    answer = Value()
    targets = answer.targets(examples(1, 2, 3), LAYOUT)
    outputs = 5 + spread * np.array([[1], [2], [3]], np.float32)
    assert answer.measure(outputs, targets, ALONE).collapsed == collapsed

  @pytest.mark.parametrize(
    ("values", "said"),
    [
      ([0.5, 1, 1.5, -999, -999], "-999 (2 of 5 rows)"),
      ([0, 1, 0.25, 1e30], "1e+30 (1 of 4 rows)"),
      ([310, 330, 430], None),
      ([1, 2, 50, 400], None),
      ([5, 5, 6], None),
    ],
  )
  def test_a_value_far_from_all_others_is_said(self, values, said, caplog):
    Value.fit({"train": values[:2], "test": values[2:]}, "pearson", "a.csv")
    assert caplog.text.count("far from all others") == (said is not None)
    assert said is None or said in caplog.text

  def test_a_score_without_a_value_is_said(self, caplog):
    answer = Value("pearson")
    targets = answer.targets(examples(1, 2, 3), LAYOUT)
    assert answer.measure(np.ones((3, 1), np.float32), targets, ALONE).score == 0
    assert "pearson is 0 because the predictions are all the same" in caplog.text

  def test_lines_and_description(self):
    answer = Value()
    assert answer.columns == ["prediction"]
    assert list(answer.rows(np.array([[0.5], [2]], np.float32), LAYOUT)) == [[[0.5]], [[2.0]]]
    targets = answer.targets(examples(1, 5, 2), LAYOUT)
    assert answer.describe(targets) == {"values": "1 to 5, median 2"}
    assert answer.summary == "values"

  @pytest.mark.parametrize("text", ["", "much", "nan", "-inf", "1e39", "3,5", "1_000"])
  def test_what_is_no_value(self, text):
    with pytest.raises(UserError, match="a.csv:3"):
      Value.parse(text, "a.csv:3")


@pytest.mark.parametrize(
  "answer", [Class(LABELS), Class(LABELS, "f1", "first"), Value(), Value("pearson")], ids=str
)
def test_what_task_json_keeps_is_the_answer(answer):
  assert from_json(answer.to_json()) == answer
  assert KINDS[answer.kind] is type(answer)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_metric_of_another_kind_is_refused(kind):
  assert kind.choose_metric(None) == kind.metrics[0]
  assert kind.choose_metric(kind.metrics[1]) == kind.metrics[1]
  with pytest.raises(UserError, match=r"task\.metric = 'bleu'"):
    kind.choose_metric("bleu")
