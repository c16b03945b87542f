"""The baselines of positions: tables and inputs by hand, and tasks whose best answer is known."""

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.metrics import is_scored, score
from discipline_jax.programs import position_baselines
from discipline_jax.programs.position_baselines import Around, fit_positions, inputs_around
from discipline_jax.tasks.position_values import PositionValues
from discipline_jax.tasks.tags import Tags

TAGS = Tags(("h", "s", "t"))


def rows_of(*rows, fill):
  """Returns rows of unlike lengths as one array."""
  width = max(map(len, rows))
  return np.array([[*row, *[fill] * (width - len(row))] for row in rows])


def test_inputs_by_hand():
  """A row for each chosen position; its columns are the symbols one before, at, and one behind it."""
  symbols = rows_of([0, 1, 1], [1], fill=-3)
  chosen = np.array([[True, False, True], [True, False, False]])
  rows = inputs_around(symbols, chosen, 2, Around(reach=1)).toarray().reshape(3, 3, 2)
  assert rows.tolist() == [
    [[0, 0], [1, 0], [0, 1]],
    [[0, 1], [0, 1], [0, 0]],
    [[0, 0], [0, 1], [0, 0]],
  ]


def test_inputs_of_runs_by_hand():
  """Of two symbols in a row, that which begins at the last position is not whole; 0 1 is number 1, 1 1 is 3."""
  symbols = rows_of([0, 1, 1], [1], fill=-3)
  rows = inputs_around(symbols, symbols >= 0, 2, Around(reach=0, k=2)).toarray()
  assert rows.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
  longer = inputs_around(symbols, symbols >= 0, 2, Around(reach=0, k=5))
  assert longer.shape == (4, 32)
  assert longer.nnz == 0


def test_tables_by_hand():
  """Masked positions would turn round the tag of symbol 0 and that of all; symbol 2 is not in training."""
  symbols = rows_of([0, 0, 0, 1, 1], [0, 1], [2, 0, 1], fill=-3)
  labels = rows_of([0, -1, -1, 1, 1], [2, 1], [0, 0, -1], fill=-1)
  labels[0, 1:3] = -1
  split = {"train": np.array([0, 1]), "validation": np.array([2]), "test": np.array([2])}
  found = fit_positions(TAGS, symbols, labels, split, 3, Around())
  assert list(found) == ["constant", "symbol", "linear"]
  assert found["constant"].setting == "always s"
  assert found["constant"].predicted["test"].tolist() == [[1, 1, -1, -1, -1]]
  assert found["symbol"].predicted["test"].tolist() == [[1, 0, -1, -1, -1]]
  assert set(found["symbol"].predicted) == {"validation", "test"}


def test_tables_of_values_by_hand():
  symbols = rows_of([0, 0, 1], [1, 0], [2, 0, 1], fill=-3)
  labels = rows_of([1.0, 3.0, 5.0], [np.nan, np.nan], [0.5, 7, np.nan], fill=np.nan)
  labels = labels.astype(np.float32)
  split = {"train": np.array([0, 1]), "validation": np.array([2])}
  found = fit_positions(PositionValues(), symbols, labels, split, 3, Around())
  np.testing.assert_allclose(found["constant"].predicted["validation"], [[3, 3, np.nan]])
  np.testing.assert_allclose(found["symbol"].predicted["validation"], [[3, 2, np.nan]])
  assert found["constant"].setting == "always 3, the mean"


def many(label_of, dtype, sequences=60):
  rng = np.random.default_rng(0)
  symbols = [rng.integers(3, size=rng.integers(5, 15)) for _ in range(sequences)]
  labels = [label_of(one) for one in symbols]
  fill = -1 if np.issubdtype(dtype, np.integer) else np.nan
  split = {"train": np.arange(40), "validation": np.arange(40, 50), "test": np.arange(50, 60)}
  return rows_of(*symbols, fill=-3), rows_of(*labels, fill=fill).astype(dtype), split


def before(symbols):
  """Returns the symbol before each; 0 for the first one."""
  return np.append(0, symbols[:-1])


@pytest.mark.parametrize("block", [100_000, 40])
def test_the_linear_model_reads_the_neighbours(block, monkeypatch):
  """The tag is the symbol before: no table by symbol knows it. Also over several blocks."""
  monkeypatch.setattr(position_baselines, "_BLOCK", block)
  symbols, labels, split = many(before, np.int8)
  found = fit_positions(TAGS, symbols, labels, split, 3, Around(reach=2))
  truth = labels[split["test"]]
  chosen = is_scored(truth)
  right = {name: (one.predicted["test"] == truth)[chosen].mean() for name, one in found.items()}
  assert right["linear"] > 0.97
  assert right["symbol"] < 0.6
  assert (found["linear"].predicted["test"][~chosen] == -1).all()


def test_ridge_regression_reads_the_neighbours():
  """The value is that of the symbol before, less its own."""
  symbols, labels, split = many(lambda one: before(one) - 1.0 * one, np.float32)
  found = fit_positions(PositionValues(), symbols, labels, split, 3, Around(reach=1))
  truth = labels[split["test"]]
  scores = {name: score("pearson", truth, one.predicted["test"]) for name, one in found.items()}
  assert scores["linear"] > 98
  assert scores["symbol"] < 90
  assert np.isnan(found["linear"].predicted["test"][np.isnan(truth)]).all()


def test_enough_positions_are_learnt_from(monkeypatch):
  """Whole sequences are taken until there are so many positions."""
  symbols, labels, split = many(before, np.int8)
  seen = []

  def spy(answer, inputs, own):
    seen.append(len(own))
    return linear_models(answer, inputs, own)

  linear_models = position_baselines.linear_models
  monkeypatch.setattr(position_baselines, "linear_models", spy)
  fit_positions(TAGS, symbols, labels, split, 3, Around(most=50))
  assert 50 <= seen[0] < 50 + 14


def test_one_tag_in_training():
  symbols, labels, split = many(before, np.int8)
  labels[:40] = np.where(labels[:40] >= 0, 1, -1)
  with pytest.raises(UserError, match="one tag only, s"):
    fit_positions(TAGS, symbols, labels, split, 3, Around())
