"""Estimates how long the unfinished cells of a study will take, from the speed of finished ones."""

import json
import re
from collections.abc import Collection, Mapping

import numpy as np
from ml_collections import ConfigDict

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.runs.cells import Cell, State, last_step


def time_left(
  cells: Mapping[str, Cell], states: Mapping[str, State], chosen: Collection[str]
) -> str:
  """Returns a few words: the time for the unfinished cells, and for how many of them it is unknown.

  A cell takes as long for a sample, or a token, as finished ones of the same network with the same longest input.
  Starting, compiling and evaluating are not counted.

  Args:
    cells: all of the study.
    states: how far each of them is.
    chosen: the names of those that are to be run.
  """
  speeds: dict[str, list[float]] = {}
  epochs: dict[str, float] = {}
  for name, cell in cells.items():
    result = states[name].result
    if result is None:
      continue
    speed = result.get("examples_per_second") or result.get("tokens_per_second")
    if speed:
      speeds.setdefault(_network(cell.config), []).append(speed)
    if cell.config.mode == "finetune" and not cell.config.train.steps:
      epochs[_training_set(cell.config)] = result["steps"] / cell.config.train.epochs
  times = []
  for name in chosen:
    if states[name].result is None:
      cell = cells[name]
      speed = speeds.get(_network(cell.config)) if speeds else None
      work = _work(cell, epochs)
      times.append(None if speed is None or work is None else work / float(np.median(speed)))
  if not times:
    return "none"
  known = [one for one in times if one is not None]
  if not known:
    return "unknown"
  unknown = f", unknown for {len(times) - len(known)} of {len(times)} runs"
  return f"about {_duration(sum(known))}{unknown if len(known) < len(times) else ''}"


def _network(config: ConfigDict) -> str:
  """Returns what the time for a sample depends on: the network and the longest input."""
  # All kept steps of a pre-training have its sizes.
  name = re.sub(r"@\d+$", "", config.model.checkpoint or "")
  model = [name, config.model.config.to_dict(), config.model.dtype]
  if config.mode == "pretrain":
    length = [list(config.corpus.length), list(config.train.phases), config.corpus.vocabulary]
  else:
    length = [_longest(config), config.train.batch_size, config.train.grad_accumulation]
  return json.dumps([config.mode, model, length], sort_keys=True)


def _longest(config: ConfigDict) -> int | str:
  """Returns the most tokens of a task's inputs, or its name if only the data tell them."""
  if config.task.max_length is not None:
    return config.task.max_length
  try:
    task = tasks.get(config.task.name, tasks.data_directory(config), config.task)
  except UserError:  # its files are not there
    return config.task.name
  return task.max_length or f"{config.task.name} {config.task.path}"


def _training_set(config: ConfigDict) -> str:
  return json.dumps([config.task.to_dict(), config.train.batch_size], sort_keys=True)


def _work(cell: Cell, epochs: Mapping[str, float]) -> float | None:
  """Returns the samples or tokens that a cell has still to train on; None if only the data tell how many.

  Args:
    cell: an unfinished one.
    epochs: updates of an epoch, by training set.
  """
  train = cell.config.train
  if cell.config.mode == "pretrain":
    shares = zip(cell.config.corpus.length, train.phases, strict=False)
    length = sum(length * share for length, share in shares) / sum(train.phases)
    return float((train.steps - last_step(cell)) * train.batch_size * length)
  steps = train.steps
  if not steps:
    if _training_set(cell.config) not in epochs:
      return None
    steps = epochs[_training_set(cell.config)] * train.epochs
  return float((steps - last_step(cell)) * train.batch_size * cell.config.replicas)


def _duration(seconds: float) -> str:
  minutes = round(seconds / 60)
  if minutes < 1:
    return "a minute"
  return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
