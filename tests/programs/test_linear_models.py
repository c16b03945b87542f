"""Linear models of several penalties, against scikit-learn's with each of them."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from discipline_jax.errors import UserError
from discipline_jax.programs.linear_models import linear_models
from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.label_sets import LabelSet
from discipline_jax.tasks.tags import Tags
from discipline_jax.tasks.values import Value

PENALTIES = ["penalty 100", "penalty 10", "penalty 1", "penalty 0.1"]
rng = np.random.default_rng(0)
INPUTS = rng.normal(size=(80, 4))
SCORES = INPUTS @ rng.normal(size=(4, 3)) + rng.normal(size=(80, 3))


def models(answer, labels):
  """Makes all models before the first one is used: a later fit must not change an earlier model."""
  return list(linear_models(answer, INPUTS, labels))


def logistic(strength, labels):
  return LogisticRegression(C=strength, max_iter=300, tol=1e-8).fit(INPUTS, labels)


def test_classes():
  labels = SCORES.argmax(1)
  found = models(Class(("a", "b", "c")), labels)
  assert [name for name, _ in found] == PENALTIES
  for (_, outputs_of), strength in zip(found, (0.01, 0.1, 1, 10), strict=True):
    expected = logistic(strength, labels).predict(INPUTS)
    assert (outputs_of(INPUTS).argmax(1) == expected).mean() > 0.97


def test_values():
  found = models(Value(), SCORES[:, 0])
  for (_, outputs_of), alpha in zip(found, (100, 10, 1, 0.1), strict=True):
    expected = Ridge(alpha=alpha).fit(INPUTS, SCORES[:, 0]).predict(INPUTS)
    np.testing.assert_allclose(outputs_of(INPUTS)[:, 0], expected, rtol=1e-4, atol=1e-5)


def test_each_of_several_labels_is_learnt_by_itself():
  """Labels that no row has, or every row, have the odds of half a row beside them."""
  labels = np.column_stack([SCORES > 0, np.zeros(80), np.ones(80)]).astype(np.int8)
  found = models(LabelSet(("a", "b", "c", "d", "e")), labels)
  for (_, outputs_of), strength in zip(found, (0.01, 0.1, 1, 10), strict=True):
    logits = outputs_of(INPUTS[:7])
    for number in range(3):
      expected = logistic(strength, labels[:, number]).decision_function(INPUTS[:7])
      np.testing.assert_allclose(logits[:, number], expected, atol=0.02)
    np.testing.assert_allclose(logits[:, 3], np.log(0.5 / 80.5), rtol=1e-6)
    np.testing.assert_allclose(logits[:, 4], np.log(80.5 / 0.5), rtol=1e-6)


def test_one_class():
  with pytest.raises(UserError, match="one class only, b"):
    models(Class(("a", "b")), np.ones(80, int))
  with pytest.raises(UserError, match="one tag only, a"):
    models(Tags(("a", "b")), np.zeros(80, int))
