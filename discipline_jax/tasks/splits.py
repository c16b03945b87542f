"""Splits the samples of a task into training, validation and test parts."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from discipline_jax.errors import UserError

# Indices into a task's samples, by part.
Split = Mapping[str, np.ndarray]


def make_split(
  parts: Mapping[str, int],
  seed: int,
  train_fraction: float = 1.0,
  *,
  strata: np.ndarray | None = None,
  classes: np.ndarray | None = None,
  groups: np.ndarray | None = None,
) -> Split:
  """Returns the split of one replica.

  Args:
    parts: the number of samples of each part that `Task.read` gives, in the order of the samples.
    seed: seed of the order of the training part, and, if the only part is `all`, of the random split into 90% training,
      5% validation and 5% test samples, as the paper splits its DNA sets.
    train_fraction: the share of the training part to keep, the first ones in shuffled order.
    strata: a label for each sample; a random split then has similar shares of each label in all parts. None to split
      without regard to labels.
    classes: the class of each sample; a random split then leaves a sample of each class in training.
    groups: the number of each sample's group; a random split then has all samples of a group in one part, whatever the
      labels, and parts that are about as large.

  Raises:
    UserError: a fraction outside (0, 1], or too few samples or groups for three parts.
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
    if groups is not None:
      split = _by_groups(order, held_out, groups, rng)
    else:
      split = _by_samples(order, held_out, strata, rng)
      if classes is not None:
        _keep_classes(split, classes)
  else:
    ends = np.cumsum(list(parts.values()))
    split = dict(zip(parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    split["train"] = rng.permutation(split["train"])
    split.setdefault("test", split["validation"])
  split["train"] = split["train"][: math.ceil(len(split["train"]) * train_fraction)]
  return split


def equally_long(splits: Sequence[Split]) -> list[Split]:
  """Returns the splits with parts as long as the shortest one among the replicas, which are trained side by side."""
  lengths = {name: min(len(split[name]) for split in splits) for name in splits[0]}
  return [{name: split[name][:length] for name, length in lengths.items()} for split in splits]


def _by_samples(
  order: np.ndarray, held_out: int, strata: np.ndarray | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
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
  return {"train": train, "validation": validation, "test": test}


def _by_groups(
  order: np.ndarray, held_out: int, groups: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
  """Fills validation and test with groups in random order, leaving out those that would make them too large."""
  _, own, sizes = np.unique(groups, return_inverse=True, return_counts=True)
  if len(sizes) < 3:
    raise UserError(
      f"{len(sizes)} group(s) of samples cannot be split into three parts; give parts with task.splits, or other groups"
    )
  part_of = np.zeros(len(sizes), int)
  for part in (1, 2):
    free = held_out
    for group in rng.permutation(np.flatnonzero(part_of == 0)):
      if sizes[group] <= free:
        part_of[group], free = part, free - sizes[group]
    if free == held_out:  # each group is larger than a part should be
      smallest = np.flatnonzero((part_of == 0) & (sizes == sizes[part_of == 0].min()))
      part_of[rng.choice(smallest)] = part
  train, validation, test = (order[part_of[own[order]] == i] for i in range(3))
  return {"train": train, "validation": validation, "test": test}


def _keep_classes(split: dict[str, np.ndarray], classes: np.ndarray) -> None:
  """Exchanges samples between the parts, so that training has a sample of each class; only rare classes need it."""
  train = split["train"]
  for lost in np.setdiff1d(classes, classes[train]):
    part = next(one for name, one in split.items() if name != "train" and lost in classes[one])
    place = np.flatnonzero(classes[part] == lost)[0]
    frequent = np.bincount(classes[train]).argmax()
    other = np.flatnonzero(classes[train] == frequent)[-1]
    part[place], train[other] = train[other], part[place]
