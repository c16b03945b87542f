"""Tests values of symbols: trained on, scored and written, with values from hand and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from discipline_jax.errors import UserError
from discipline_jax.models import TokenClassifier
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.answers import from_json
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.position_values import PositionValues

ANSWER = PositionValues("pearson")
NAN = np.nan
LABELS = np.array([[NAN, 1, NAN, 3, NAN], [NAN, 2, 5, NAN, NAN]], np.float32)
OUTPUTS = np.array([[9, 2, 9, 3], [9, 2, 2, 9]], np.float32)[..., None]
GROUPS = np.arange(2, dtype=np.int32)


def test_targets():
  examples = [
    Example("ACD", np.array([1, NAN, 3], np.float32)),
    Example("AC", np.array([2, 5], np.float32)),
  ]
  targets = ANSWER.targets(examples, Layout(np.array([5, 4], np.int32), 1))
  np.testing.assert_array_equal(targets["labels"], LABELS)
  np.testing.assert_array_equal(ANSWER.counts(targets), [2, 2])
  assert ANSWER.head == TokenClassifier(1)
  assert ANSWER.scale(targets) == pytest.approx({"mean": 2.75, "std": np.std([1, 3, 2, 5])})
  assert from_json(ANSWER.to_json()) == ANSWER


@pytest.mark.parametrize("scale", [{}, {"mean": np.float32(1), "std": np.float32(2)}])
def test_losses_and_their_gradient(scale):
  """Where there is no value, neither the loss nor its gradient has anything."""
  targets = {"labels": jnp.asarray(LABELS), **scale}

  def loss(outputs):
    return ANSWER.losses(outputs, targets).sum()

  labels = (LABELS[:, :4] - scale.get("mean", 0)) / scale.get("std", 1)
  errors = np.where(np.isnan(labels), 0, OUTPUTS[..., 0] - labels)
  losses = ANSWER.losses(jnp.asarray(OUTPUTS), targets)
  np.testing.assert_allclose(losses, (errors**2).sum(1), rtol=1e-6)
  gradient = jax.grad(loss)(jnp.asarray(OUTPUTS))
  np.testing.assert_allclose(gradient[..., 0], 2 * errors, rtol=1e-6)


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
def test_scores_are_over_all_positions_with_a_value(metric):
  correlation = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[metric]
  measured = PositionValues(metric).measure(OUTPUTS, {"labels": LABELS}, GROUPS)
  assert measured.score == pytest.approx(100 * correlation([1, 3, 2, 5], [2, 3, 2, 2]).statistic)
  assert measured.loss == pytest.approx((1 + 0 + 0 + 9) / 4)
  assert measured.measures == {"number": 4}
  np.testing.assert_array_equal(np.isnan(measured.predicted), np.isnan(LABELS))
  scaled = PositionValues(metric).measure(
    OUTPUTS, {"labels": LABELS, "mean": 0, "std": np.float32(2)}, GROUPS
  )
  assert scaled.loss == pytest.approx(measured.loss / 4)
  assert scaled.errors == {"mean_squared_error": pytest.approx(measured.loss)}


def test_lines():
  layout = Layout(np.array([4], np.int32), 1)
  assert ANSWER.columns == ["position", "prediction"]
  assert list(ANSWER.rows(OUTPUTS[:1], layout)) == [[[1, 2.0], [2, 9.0]]]
  assert list(ANSWER.texts(OUTPUTS[:1], layout)) == [[["2 9"]]]
  assert ANSWER.describe({"labels": LABELS}) == {"values": "1 to 5, median 2.5"}


def test_a_table_without_values():
  with pytest.raises(UserError, match="a.csv"):
    PositionValues.fit({"all": [(NAN, NAN)]}, "pearson", "a.csv")


@pytest.mark.parametrize("text", ["1,,3", "1, ,3", ",1,3", ", 1 3"])
def test_a_place_between_commas_without_a_number(text):
  """Left out, all numbers behind it would stand one symbol too early."""
  with pytest.raises(UserError, match=r"a\.csv:2; write nan"):
    PositionValues.parse(text, "a.csv:2")
  assert PositionValues.parse("1,3,", "a.csv:2") == (1, 3)
