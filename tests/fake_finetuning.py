"""Stands in for fine-tuning in tests of what is made of many: it trains nothing, and leaves what a run leaves.

What it predicts is right for a share of the samples that a test gives for each init, optimizer, rate and seed.
"""

import json
from collections.abc import Callable

import numpy as np
from ml_collections import ConfigDict

from discipline_jax.errors import NotFinite
from discipline_jax.programs.evaluation import score_outputs
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.runs.predictions import write_predictions
from discipline_jax.runs.workdir import Workdir
from discipline_jax.tasks.answer import Answer, Predictions
from discipline_jax.tasks.label_sets import LabelSet

# (config, seed) -> share of right predictions; None: the loss is not finite.
Shares = Callable[[ConfigDict, int], float | None]


class FakeFinetuning:
  """A function in place of `finetune` that notes the folders of the runs that it runs to their end."""

  def __init__(self, shares: Shares):
    self.shares = shares
    self.ran: list[str] = []

  def __call__(self, config: ConfigDict, workdir, *, is_cell: bool) -> None:
    assert is_cell  # the comparison says a line for each
    run = Workdir(workdir, config)
    if run.result() is not None:
      return
    plan = make_plan(config)
    shares = [self.shares(config, seed) for seed in plan.seeds]
    if None in shares:
      raise NotFinite("the training loss is [nan]")
    with run:
      run.claim({})
      parts = {part: self._predict(plan, shares, part) for part in ("validation", "test")}
      write_predictions(workdir, plan.seeds, parts)
      lines = [
        {"step": 1, "split": "validation", "replica": i, "loss": one.measured.loss}
        for i, one in enumerate(parts["validation"])
      ]
      (workdir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
      run.write_result(self._result(config, plan.task.answer.metric, parts))
    self.ran.append(workdir.name)

  @staticmethod
  def _predict(plan, shares: list[float], part: str) -> list[Predictions]:
    predictions = []
    for seed, share, split in zip(plan.seeds, shares, plan.splits, strict=True):
      samples = split[part].astype(np.int32)
      labels = plan.features.targets["labels"][samples]
      owners = np.unique(plan.features.sequences(samples), return_inverse=True)[1]
      order = np.random.default_rng([seed, 1]).permutation(owners.max() + 1)
      right = (order < share * len(order))[owners].reshape(-1, *[1] * (labels.ndim - 1))
      outputs = _outputs(plan.task.answer, labels, right)
      predictions.append(score_outputs(plan.task, plan.features, samples, outputs, {}))
    return predictions

  @staticmethod
  def _result(config: ConfigDict, metric: str, parts: dict[str, list[Predictions]]) -> dict:
    scores = {part: [one.measured.score for one in own] for part, own in parts.items()}
    return {
      "mode": "finetune",
      "metric": metric,
      "seconds": 0.0,
      "best_steps": [1] * config.replicas,
      "collapsed": False,
      **{
        part: {
          "mean": float(np.mean(runs)),
          "std": 0.0,
          "runs": runs,
          "intervals": [[score - 5, score + 5] for score in runs],
          "samples": [len(one.measured.labels) for one in parts[part]],
        }
        for part, runs in scores.items()
      },
    }


def _outputs(answer: Answer, labels: np.ndarray, right: np.ndarray) -> np.ndarray:
  """Returns outputs that are the labels where `right`, and else another class, other labels, or minus the value."""
  if isinstance(answer, LabelSet):
    return np.where(right == (labels > 0), 1, -1).astype(np.float32)
  if not answer.labels:
    return np.nan_to_num(np.where(right, labels, -labels)).astype(np.float32)[..., None]
  number = len(answer.labels)
  return np.eye(number, dtype=np.float32)[np.where(right, labels, (labels + 1) % number)]
