"""Draws the training, validation and test part of each replica, and logs what makes scores on them mean less."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging
from jaxtyping import Int32
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.metrics import is_scored
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.features import Features
from discipline_jax.tasks.groups import group_by_identity, join_groups
from discipline_jax.tasks.leakage import Overlap, overlaps
from discipline_jax.tasks.splits import Split, equally_long, make_split
from discipline_jax.tasks.windows import Windows


@dataclasses.dataclass(frozen=True)
class Parts:
  """The parts of each replica.

  Attributes:
    splits: one for each replica.
    grouping: the text of the plan about groups that stay in one part; None if there are no groups.
    overlaps: for each replica, how many samples of each part are in its training part, too.
  """

  splits: list[Split]
  grouping: str | None
  overlaps: list[Mapping[str, Overlap]]


def draw_parts(
  config: ConfigDict,
  task: Task,
  features: Features,
  seeds: Sequence[int],
  complement: Int32[np.ndarray, " symbols"] | None,
) -> Parts:
  """Draws the parts of each replica.

  Args:
    config: config of the run.
    task, features: its task and samples.
    seeds: seed of each replica.
    complement: see `tasks.strands.complements`; if given, a sequence and its reverse complement count as the same one.

  Raises:
    UserError: groups for a task whose parts are given, or too few of them.
  """
  answer = task.answer
  windows = features.windows
  # Sequences are drawn, with all of their windows.
  firsts = slice(None) if windows is None else windows.firsts
  groups, grouping = _groups(config.task.group_identity, task, features, firsts, complement)
  own = {name: target[firsts] for name, target in features.targets.items()}
  classes = answer.classes(own)
  strata = answer.strata(own) if task.stratified else None
  drawn = [
    make_split(
      features.parts,
      seed,
      config.task.train_fraction,
      strata=strata,
      classes=classes,
      groups=groups,
    )
    for seed in seeds
  ]
  splits = equally_long(drawn)
  if windows is not None:
    splits = _windows_of(splits, windows)
    classes = answer.classes(features.targets)
  _check_scored(task, features, splits, config.eval.max_examples)
  members = answer.members(features.targets)
  if classes is not None:
    present = np.unique(classes)
    lost = [np.setdiff1d(present, classes[split["train"]]) for split in splits]
    _warn_of_lost_classes(lost, answer.labels, seeds)
  elif members is not None:
    lost = [np.flatnonzero(members.any(0) > members[split["train"]].any(0)) for split in splits]
    _warn_of_lost_classes(lost, answer.labels, seeds)
  how = "" if complement is None else " (this strand or the other)"
  common = overlaps(features, splits, pairs=task.pairs, complement=complement)
  sizes = {part: features.num_sequences(own) for part, own in splits[0].items()}
  _warn_of_overlaps(common, sizes, how, _remedy(task, features))
  return Parts(splits, grouping, common)


def _windows_of(splits: Sequence[Split], windows: Windows) -> list[Split]:
  """Returns the windows of the sequences of each part."""
  drawn = [{part: windows.of(one) for part, one in split.items()} for split in splits]
  # Replicas are trained side by side, but scored on all windows of their own sequences.
  trained = equally_long([{"train": split["train"]} for split in drawn])
  _warn_of_left_windows(drawn, trained)
  return [dict(split) | dict(one) for split, one in zip(drawn, trained, strict=True)]


def _check_scored(task: Task, features: Features, splits: list[Split], max_examples: int) -> None:
  """Raises UserError if a part has no position that is scored, so that there is nothing to train on or to score.

  So it does if the first `max_examples` samples of validation have none, which choose the best weights.
  """
  if not task.answer.of_positions:
    return
  labels = features.targets["labels"]
  remedy = "give labels of other positions, or other parts"
  within = (
    f"; {remedy}"
    if task.windows
    else f" within the {labels.shape[1]} tokens that are read; {remedy}, or raise task.max_length"
  )
  for split in splits:
    for part, samples in split.items():
      if not is_scored(labels[samples]).any():
        raise UserError(f"no position of the {part} part of task {task.name} is scored{within}")
    first = features.of_first(split["validation"], max(1, max_examples))
    if max_examples != -1 and not is_scored(labels[first]).any():
      raise UserError(
        f"no position of the first {max_examples} samples of validation is scored, task {task.name}; raise"
        " --config.eval.max_examples, or set it to -1"
      )


def _groups(
  identity: float | None,
  task: Task,
  features: Features,
  firsts: slice | np.ndarray,
  complement: np.ndarray | None,
) -> tuple[np.ndarray | None, str | None]:
  """Returns the number of each sequence's group and a line about the groups, or twice None if there are none.

  Args:
    identity: `task.group_identity`.
    task, features: the task and its samples.
    firsts: the first window of each sequence.
    complement: the number of the complement of each symbol, if both strands are read; else None.
  """
  if identity is None:
    if not task.grouped:
      return None, None
    groups, origin = features.groups[firsts], "of the table"
  else:
    if not 0 < identity <= 1:
      raise UserError(
        f"task.group_identity = {identity} is not in (0, 1]; give the share of k-mers from which sequences are alike"
      )
    if set(features.parts) != {"all"}:
      raise UserError(
        f"task.group_identity = {identity} is for random parts, but the parts of task {task.name} are given; unset it"
      )
    if features.segments is not None:
      raise UserError(
        f"task.group_identity = {identity} is for single sequences: of two pairs it cannot keep those together that"
        " share one sequence; set --config.task.group_identity=None, and name a group of each pair with"
        " task.group_column"
      )
    groups, k = group_by_identity(features.symbols, identity, complement)
    if features.windows is not None:
      groups = join_groups(groups, features.windows.owners)
    strands = "" if complement is None else " of both strands"
    origin = f"of sequences that share {100 * identity:g}% of their {k}-mers{strands}"
    if task.grouped:
      own = np.unique(features.groups[firsts], return_inverse=True)[1]
      groups, origin = join_groups(groups, own)[own], f"{origin}, or a group of the table"
  sizes = np.bincount(groups)
  return groups, f"{len(sizes)} {origin}, of up to {sizes.max()} samples, each in one part"


def _warn_of_lost_classes(
  lost: Sequence[np.ndarray], labels: Sequence[str], seeds: Sequence[int]
) -> None:
  told = [
    f"{', '.join(labels[one] for one in missing)[:80]} (seed {seed})"
    for seed, missing in zip(seeds, lost, strict=True)
    if len(missing)
  ]
  if told:
    logging.warning(
      "no sample of these classes is in the training part, so they cannot be predicted: %s; give more samples of them",
      "; ".join(told),
    )


def _warn_of_left_windows(drawn: Sequence[Split], trained: Sequence[Split]) -> None:
  """Logs that some windows of training are not trained on, if replicas do not have equally many."""
  sizes = [len(split["train"]) for split in drawn]
  kept = len(trained[0]["train"])
  if max(sizes) > kept:
    logging.warning(
      "replicas are trained side by side on %d windows each, so up to %d of a replica's %d windows of training are"
      " left out",
      kept,
      max(sizes) - kept,
      max(sizes),
    )


def _remedy(task: Task, features: Features) -> str:
  """Returns what to do about samples of other parts that training has, too."""
  if set(features.parts) != {"all"}:
    return "leave them out of one of the parts"
  if features.segments is not None:
    return "leave equal ones out, or name a group of each pair with task.group_column"
  cut = (
    ""
    if task.windows
    else " (if they are equal only as far as they are read, raise task.max_length)"
  )
  return (
    f"leave equal ones out, or set --config.task.group_identity=1 to keep them in one part{cut}"
  )


def _warn_of_overlaps(
  found: Sequence[Mapping[str, Overlap]], sizes: Mapping[str, int], how: str, remedy: str
) -> None:
  told = [
    f"{_range([one[part].samples for one in found])} of {sizes[part]} {part} samples"
    + _contradicting([one[part].contradicting for one in found])
    for part in found[0]
    if any(one[part].samples for one in found)
  ]
  if told:
    logging.warning(
      "%s are in the training part, too%s, so a score on them says little about new ones; %s",
      ", ".join(told),
      how,
      remedy,
    )


def _contradicting(counts: Sequence[int]) -> str:
  return f" ({_range(counts)} of them with another label)" if any(counts) else ""


def _range(counts: Sequence[int]) -> str:
  low, high = min(counts), max(counts)
  return str(low) if low == high else f"{low} to {high}"
