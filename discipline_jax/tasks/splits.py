"""Splits the samples of a task into training, validation and test parts."""

import math
from collections.abc import Mapping

import numpy as np

from discipline_jax.errors import UserError

# Indices into a task's samples, by part.
Split = Mapping[str, np.ndarray]


def make_split(
  parts: Mapping[str, int],
  seed: int,
  train_fraction: float = 1.0,
  strata: np.ndarray | None = None,
) -> Split:
  """Returns the split of one replica.

  Args:
    parts: the number of samples of each part that `Task.read` gives, in the order of the samples.
    seed: seed of the order of the training part, and, if the only part is `all`, of the random split into 90% training,
      5% validation and 5% test samples, as the paper splits its DNA sets.
    train_fraction: the share of the training part to keep, the first ones in shuffled order.
    strata: a label for each sample; a random split then has similar shares of each label in all parts. None to split
      without regard to labels.

  Raises:
    UserError: a fraction outside (0, 1], or too few samples for three parts.
  """
  if not 0 < train_fraction <= 1:
    raise UserError(
      f"task.train_fraction = {train_fraction} is not in (0, 1]; give the share of the training set to use"
    )
  rng = np.random.default_rng(seed)
  if set(parts) == {"all"}:
    order = rng.permutation(parts["all"])
    held_out = round(len(order) * 0.05)
    if held_out == 0:
      raise UserError(f"{len(order)} samples cannot be split 90/5/5; give at least 11")
    if strata is None:
      train, validation, test = np.split(order, [len(order) - 2 * held_out, len(order) - held_out])
    else:
      # Samples at equal distances in the order of the labels go to validation and test in turn, so that both have
      # their share of each class. The parts themselves stay shuffled, because eval.max_examples takes their first ones.
      by_label = order[np.argsort(strata[order], kind="stable")]
      turns = np.arange(2 * held_out)
      places = (turns * len(order) + rng.integers(len(order))) // (2 * held_out)
      part = np.zeros(len(order), int)
      part[by_label[places]] = 1 + (turns + rng.integers(2)) % 2
      train, validation, test = (order[part[order] == i] for i in range(3))
    split = {"train": train, "validation": validation, "test": test}
  else:
    ends = np.cumsum(list(parts.values()))
    split = dict(zip(parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    split["train"] = rng.permutation(split["train"])
    split.setdefault("test", split["validation"])
  split["train"] = split["train"][: math.ceil(len(split["train"]) * train_fraction)]
  return split
