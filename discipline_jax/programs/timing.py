"""Measures how fast a fine-tuning is on this machine, and fits the runs of a comparison into the time there is."""

import dataclasses
import math
import time
from collections.abc import Iterator

import jax
import numpy as np

from discipline_jax.errors import UserError
from discipline_jax.programs.finetuning import Finetuning, State
from discipline_jax.programs.finetuning_plan import make_plan

_SECONDS = 20  # updates are timed for about so long
_LEAST, _MOST = 4, 100  # but at least and at most so many of them; the first one does not count
_USED = 0.95  # share of the time that is planned; checkpoints and the baselines take the rest
MIN_SEEDS = 2  # one seed has no interval


@dataclasses.dataclass(frozen=True)
class Speed:
  """Holds how long the parts of a run take, in seconds.

  Attributes:
    begin: reading data and weights and loading the compiled programs, before the first update.
    update: one update.
    evaluate: evaluating on validation once, as during training.
    finish: scoring validation and test at the end.
  """

  begin: float
  update: float
  evaluate: float
  finish: float

  def run(self, steps: int, every_steps: int) -> float:
    """Returns how many seconds the training with one seed takes.

    Args:
      steps: its updates.
      every_steps: updates between two evaluations on validation.
    """
    evaluations = math.ceil(steps / every_steps)
    return self.begin + steps * self.update + evaluations * self.evaluate + self.finish


@dataclasses.dataclass(frozen=True)
class Grid:
  """Holds what a comparison trains if it has the time.

  Attributes:
    inits, rates: their numbers; every init tries every rate with one seed.
    seeds: the number of seeds with which each init is then trained at its best rate.
    trial_steps: updates of the trial of a rate.
    steps: updates of the trainings at the best rate.
    epoch_steps: updates of an epoch.
    every_steps: updates between two evaluations.
  """

  inits: int
  rates: int
  seeds: int
  trial_steps: int
  steps: int
  epoch_steps: int
  every_steps: int

  def seconds(self, speed: Speed) -> float:
    """Returns how many seconds all trainings take together."""
    trials = self.rates * speed.run(self.trial_steps, self.every_steps)
    finals = self.seeds * speed.run(self.steps, self.every_steps)
    return self.inits * (trials + finals)


def measure_speed(program: Finetuning) -> Speed:
  """Measures how long the parts of a fine-tuning of one replica take, by its first updates, which are thrown away.

  The learning rate is an input of the programs, so on a CPU all runs of a comparison have the same programs. They are
  compiled here first. What a run does before its first update is then done once more and timed: the programs come from
  the cache, or are compiled again if there is no cache. On an accelerator all seeds of an init are trained in one
  program of their own; the time of compiling it is not counted.
  """
  parts, most = program.plan.splits[0], program.plan.config.eval.max_examples
  scored = {name: len(samples) for name, samples in parts.items() if name != "train"}
  _ready(program)
  clock = time.perf_counter()
  program = Finetuning(make_plan(program.plan.config), program.mesh)
  state, params = _ready(program)
  loading = time.perf_counter() - clock
  clock = time.perf_counter()
  program.predictions(params, "validation")
  each = (time.perf_counter() - clock) / scored["validation"]
  # Windows are timed, and `most` counts sequences.
  during = scored["validation"]
  if most != -1:
    during = len(program.plan.features.of_first(parts["validation"], most))
  return Speed(
    max(0.0, loading - each * scored["validation"]),
    _seconds_per_update(program, state),
    during * each,
    sum(scored.values()) * each,
  )


def _ready(program: Finetuning) -> tuple[State, list[dict]]:
  """Compiles all programs, and returns the state before the first update and its parameters."""
  program.compile(program.lower())
  state = program.start()
  params = [one.params for one in state["states"]]
  program.predictions(params, "validation")
  return state, params


def _seconds_per_update(program: Finetuning, state) -> float:
  times: list[float] = []
  while len(times) < _LEAST or (sum(times) < _SECONDS and len(times) < _MOST):
    clock = time.perf_counter()
    state, metrics = program.update(state, len(times) % program.num_steps)
    jax.block_until_ready(metrics)
    times.append(time.perf_counter() - clock)
  return float(np.mean(times[1:]))


def fit(grid: Grid, speed: Speed, minutes: float | None, spent: float) -> Grid:
  """Returns the largest grid that fits into the time, at most the one that is wanted.

  To save time, first the rates are tried for half of the updates, then there are fewer seeds, and then fewer epochs.

  Args:
    grid: what is wanted.
    speed: how fast the trainings are.
    minutes: the time for the whole comparison; None: no bound.
    spent: seconds of that time that have passed already.

  Raises:
    UserError: not even two seeds and one epoch fit (or all updates, if the grid has less than an epoch).
  """
  if minutes is None:
    return grid
  smaller = list(_smaller(grid))
  for one in (grid, *smaller):
    if one.seconds(speed) <= 60 * minutes * _USED - spent:
      return one
  least = smaller[-1]
  needed = math.ceil((least.seconds(speed) + spent) / _USED / 60)
  raise UserError(
    f"compare.minutes = {minutes:g} is too few: {least.inits} inits, each at {least.rates} rates and with {least.seeds}"
    f" seeds for {least.steps} updates, at {1 / speed.update:.3g} updates a second, need {needed} minutes;"
    f" set --config.compare.minutes={needed}, fewer compare.rates or compare.inits, a smaller model.checkpoint,"
    " task.train_fraction or task.max_length"
  )


def _smaller(grid: Grid) -> Iterator[Grid]:
  """Yields smaller and smaller grids: shorter trials, then fewer seeds, then fewer updates, down to an epoch."""
  for seeds in range(grid.seeds, MIN_SEEDS - 1, -1):
    yield dataclasses.replace(grid, seeds=seeds, trial_steps=math.ceil(grid.steps / 2))
  quarter = grid.epoch_steps / 4
  for quarters in range(math.ceil(grid.steps / quarter) - 1, 3, -1):
    steps = round(quarters * quarter)
    yield dataclasses.replace(grid, seeds=MIN_SEEDS, steps=steps, trial_steps=math.ceil(steps / 2))
