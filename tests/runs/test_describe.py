"""Tests the lines about finished runs."""

import numpy as np
import pytest

from discipline_jax.runs import describe
from discipline_jax.runs.result import scores
from discipline_jax.tasks.answer import Measured


def measured(labels, predicted):
  right = 100 * float(np.mean(np.array(labels) == predicted))
  return Measured(0.5, right, False, np.array(labels), np.array(predicted))


def result(**parts):
  return {
    "mode": "finetune",
    "task": "custom",
    "metric": "accuracy",
    "model": "bert",
    "init": "pretrained",
    "token_map": "random",
    "best_steps": [10],
    "steps": 20,
    "seconds": 3,
    "device": "1 x cpu",
    "examples_per_second": 5,
    "collapsed": False,
    **parts,
  }


def test_three_samples_show_nothing():
  part = scores([measured([0, 0, 1], [0, 0, 0])], "accuracy")
  assert part["samples"] == [3]
  lines = describe.finetuned(result(validation=part, test=part))
  assert lines["test"] == " 66.7   95% interval 20.8 to 93.9, 3 samples"
  assert lines["caution"] == (
    "always the same answer would get 66.7 on validation, 66.7 on test, which is in the interval: the score may be"
    " chance"
  )
  assert "balanced" not in lines  # two to one


def test_the_same_answer_can_be_better_than_the_model():
  labels = np.array([0] * 80 + [1] * 20)
  chance = scores([measured([0, 0, 1], [0, 0, 0])], "accuracy")
  # 30 of 100 are right; Wilson's interval is 21.9 to 39.6, and 80 are of one class.
  worse = scores([measured(labels, np.where(np.arange(100) < 30, labels, 1 - labels))], "accuracy")
  lines = describe.finetuned(result(validation=chance, test=worse))
  assert lines["caution"] == (
    "always the same answer would get 66.7 on validation, which is in the interval: the score may be chance; and 80.0"
    " on test, which is above the interval: the model is worse than that"
  )
  lines = describe.finetuned(result(validation=worse, test=worse))
  assert lines["caution"].startswith(
    "always the same answer would get 80.0 on validation, 80.0 on test, which is above"
  )


def test_a_hundred_samples_can_show_something():
  labels = np.arange(100) % 2
  part = scores([measured(labels, np.where(np.arange(100) < 90, labels, 1 - labels))], "accuracy")
  lines = describe.finetuned(result(validation=part, test=part))
  assert "caution" not in lines
  # Wilson's interval of 90 in 100
  assert lines["test"] == " 90.0   95% interval 82.6 to 94.5, 100 samples"


def test_unbalanced_classes_are_balanced():
  part = scores([measured([0] * 8 + [1] * 2, [0] * 8 + [1, 0])] * 2, "accuracy")
  assert part["balanced_accuracy"] == pytest.approx([75, 75])
  lines = describe.finetuned(result(validation=part, test=part))
  assert lines["balanced"].startswith("validation 75.0, test 75.0")


def test_a_run_of_an_older_version_is_shown():
  part = {"mean": 50.0, "std": 1.0, "runs": [49.0, 51.0]}
  lines = describe.finetuned(result(validation=part, test=part))
  assert lines["test"] == " 50.0 ± 1.0   (49.0, 51.0)"
  assert "50.0 ± 1.0" in describe.side_by_side({"old": result(validation=part, test=part)})


def test_a_study_shows_the_interval_of_test():
  part = scores([measured([0, 0, 1], [0, 0, 0])], "accuracy")
  table = describe.side_by_side({"mine": result(validation=part, test=part)})
  assert table.splitlines()[1].split("  ")[-2:] == ["20.8 to 93.9, 3 samples", "10"]


@pytest.mark.parametrize(("loss", "is_cautious"), [(2.9, False), (3.0, True), (3.1, True)])
def test_a_pre_training_that_is_not_below_the_loss_without_context(loss, is_cautious):
  lines = describe.pretrained(
    {
      "corpus": "nesting",
      "tokens": 41249,
      "entropy": 3.3,
      "network": "bert 1 x 32",
      "objective": "causal",
      "steps": 40,
      "validation": {"loss": loss + 0.7, "lm_loss": loss, "lm_loss_without_context": 3.0},
      "kept_steps": [0, 40],
      "seconds": 3,
      "device": "1 x cpu",
      "tokens_per_second": 0,
      "input_wait": 0,
    }
  )
  assert ("caution" in lines) == is_cautious
  if is_cautious:
    assert lines["caution"].startswith("lm_loss is not below lm_loss_without_context, so nothing")
