"""Writes the folders of finished runs, as a run leaves them, without training."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discipline_jax import metrics

VERSIONS = {"python": "3.11.7", "discipline-jax": "0.1.0", "jax": "0.10.2", "numpy": "2.4.6"}


def finetuned(
  path: pathlib.Path,
  *,
  task: str = "dna_splice",
  metric: str = "accuracy",
  init: str = "pretrained",
  right: Sequence[float] = (0.9, 0.8, 0.7),
  samples: int = 50,
  curve: Mapping[int, Sequence[float]] | None = None,
  has_predictions: bool = True,
  **fields: Any,
) -> dict[str, Any]:
  """Writes a run of which each replica predicts a share `right` of its samples rightly, and returns its result.

  Seeds are 0, 1, ...; each has samples of its own, as with random splits, the same ones in all runs.

  Args:
    path: the folder.
    curve: validation scores of the replicas, by step.
    fields: further fields of result.json.
  """
  path.mkdir(parents=True)
  replicas = len(right)
  arrays: dict[str, np.ndarray] = {"seeds": np.arange(replicas)}
  scores = {}
  for number, part in enumerate(("validation", "test")):
    draw = np.random.default_rng(number)  # of labels, the same for all runs
    units = np.stack([draw.permutation(1000)[:samples] for _ in right]).astype(np.int32)
    labels = units % 2 if metric in metrics.CLASS_METRICS else np.float32(units)
    own = np.random.default_rng([number, *path.name.encode()])
    is_right = own.permuted(np.arange(samples) < np.array(right)[:, None] * samples - 0.5, axis=1)
    if metric in metrics.CLASS_METRICS:
      predicted = np.where(is_right, labels, 1 - labels)
    else:
      predicted = np.where(is_right, labels, own.normal(500, 300, labels.shape)).astype(np.float32)
    arrays |= {f"{part}.units": units, f"{part}.labels": labels, f"{part}.predicted": predicted}
    arrays |= {f"{part}.samples": units, f"{part}.outputs": np.zeros((*units.shape, 1), np.float32)}
    runs = [metrics.score(metric, *pair) for pair in zip(labels, predicted, strict=True)]
    scores[part] = {
      "mean": float(np.mean(runs)),
      "std": float(np.std(runs, ddof=1)) if replicas > 1 else 0.0,
      "runs": runs,
      "samples": [samples] * replicas,
      "intervals": [[score - 5, score + 5] for score in runs],
      "constant": [50.0] * replicas,
    }
  result = {
    **_envelope("finetune"),
    "task": task,
    "metric": metric,
    "model": "google-bert/bert-base-uncased",
    "init": init,
    "network": "bert 12 x 768",
    "token_map": "random",
    "replicas": replicas,
    **scores,
    "best_steps": [20] * replicas,
    "steps": 30,
    "collapsed": False,
    **fields,
  }
  records = [
    {
      "step": step,
      "split": "train",
      "replica": i,
      "loss": 1 / step + 0.01 * i,
      "learning_rate": 1e-5,
    }
    for step in (10, 20, 30)
    for i in range(replicas)
  ]
  records += [
    {"step": step, "split": "validation", "replica": i, "loss": 0.5, metric: score}
    for step, of_replicas in (curve or {15: [60.0] * replicas, 30: [80.0] * replicas}).items()
    for i, score in enumerate(of_replicas)
  ]
  if has_predictions:
    np.savez(path / "predictions.npz", **arrays)
  config = {
    "mode": "finetune",
    "seed": 0,
    "replicas": replicas,
    "task": {"name": task, "path": None, "train_fraction": 1.0},
  }
  _write(path, result, config, records)
  return result


def pretrained(path: pathlib.Path, steps: int = 40) -> None:
  """Writes a run of pre-training."""
  path.mkdir(parents=True)
  result = {
    **_envelope("pretrain"),
    "corpus": "nesting",
    "objective": "mlm",
    "network": "bert 2 x 64",
    "steps": steps,
    "kept_steps": [0, steps],
    "validation": {"loss": 3.7, "mlm_accuracy": 0.2, "mlm_loss_without_context": 2.5},
  }
  records = [
    {
      "step": step,
      "split": split,
      "replica": 0,
      "loss": 5 - step / 20,
      "mlm_loss": 4 - step / 20,
    }
    for step in (20, 40)
    for split in ("train", "validation")
  ]
  _write(path, result, {"mode": "pretrain", "seed": 1}, records)


def study(path: pathlib.Path, labels: Mapping[str, Mapping[str, Any]], **failed: str) -> None:
  """Writes study.json with fine-tunings, and failed.json."""
  cells = {name: {"mode": "finetune", "labels": own} for name, own in labels.items()}
  path.mkdir(parents=True, exist_ok=True)
  (path / "study.json").write_text(json.dumps({"cells": cells}))
  if failed:
    (path / "failed.json").write_text(json.dumps(failed))


def _envelope(mode: str) -> dict[str, Any]:
  return {
    "mode": mode,
    "identity": "0" * 16,
    "seconds": 1.0,
    "device": "1 x cpu",
    "versions": VERSIONS,
  }


def _write(path: pathlib.Path, result: dict, config: dict, records: list[dict]) -> None:
  (path / "result.json").write_text(json.dumps(result))
  (path / "config.json").write_text(json.dumps(config))
  (path / "inputs.json").write_text("{}")
  (path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
