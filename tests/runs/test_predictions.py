"""The predictions that a fine-tuning leaves: they are those of its scores, and name their samples."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from discipline_jax.runs.predictions import write_predictions
from discipline_jax.tasks.answer import Measured, Predictions
from discipline_jax.tasks.planted import planted


def test_scores_can_be_computed_from_them(uninterrupted):
  workdir, _, _ = uninterrupted
  result = json.loads((workdir / "result.json").read_text())
  labels = np.array([example.label for example in planted().read()["all"]])
  with np.load(workdir / "predictions.npz", allow_pickle=False) as found:
    assert found["seeds"].tolist() == [0, 1]
    for part in ("validation", "test"):
      samples, outputs = found[f"{part}.samples"], found[f"{part}.outputs"]
      assert samples.dtype == np.int32
      assert outputs.dtype == np.float32
      assert outputs.shape == (*samples.shape, 3)
      assert not set(found["validation.samples"][0]) & set(found["test.samples"][0])
      np.testing.assert_array_equal(found[f"{part}.units"], samples)
      np.testing.assert_array_equal(found[f"{part}.labels"], labels[samples])
      np.testing.assert_array_equal(found[f"{part}.predicted"], outputs.argmax(-1))
      scores = [
        100 * accuracy_score(*pair)
        for pair in zip(found[f"{part}.labels"], found[f"{part}.predicted"], strict=True)
      ]
      assert scores == pytest.approx(result[part]["runs"])


def test_groups_and_values(tmp_path):
  """Units may be fewer than samples, and values stay values."""
  values = np.array([0.5, 2.5], np.float32)
  part = Predictions(
    np.array([8, 2, 5], np.int32),
    np.ones((3, 1), np.float32),
    np.array([1, 4]),
    Measured(0.5, 40.0, False, values, values + 1),
  )
  write_predictions(tmp_path, [3], {"test_mismatched": [part]})
  with np.load(tmp_path / "predictions.npz", allow_pickle=False) as found:
    assert found["test_mismatched.samples"].tolist() == [[8, 2, 5]]
    assert found["test_mismatched.units"].tolist() == [[1, 4]]
    assert found["test_mismatched.predicted"].tolist() == [[1.5, 3.5]]
  assert [path.name for path in tmp_path.iterdir()] == ["predictions.npz"]
