"""Weights of classes, so that rare ones count as much as frequent ones in training."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from discipline_jax.errors import UserError
from discipline_jax.tasks.answer import Targets
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.splits import Split


def class_weights(
  choice: str | None, task: Task, targets: Targets, splits: Sequence[Split]
) -> Float32[np.ndarray, "replicas classes"] | None:
  """Returns n / (k n_c) for each class c: of n training samples in k classes, n_c are in c.

  These are the weights that scikit-learn calls balanced. A class without training samples has no part in the loss.

  Args:
    choice: `train.class_weights`, `balanced`; None: no weights.
    task: the task.
    targets: of all samples.
    splits: the split of each replica.

  Raises:
    UserError: another choice, or samples without classes.
  """
  if choice is None:
    return None
  if choice != "balanced":
    raise UserError(
      f"train.class_weights = {choice!r} is not balanced; set --config.train.class_weights=balanced, or None for no"
      " weights"
    )
  classes = task.answer.classes(targets)
  if classes is None:
    raise UserError(
      f"train.class_weights = {choice!r} is for samples of one class each, but task {task.name} asks for"
      f" {task.answer.summary}; set --config.train.class_weights=None"
    )
  number = len(task.answer.labels)
  counts = np.stack([np.bincount(classes[split["train"]], minlength=number) for split in splits])
  present = (counts > 0).sum(1, keepdims=True)
  return (counts.sum(1, keepdims=True) / (present * np.maximum(1, counts))).astype(np.float32)
