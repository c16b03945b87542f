"""Decides at the first start of a comparison how many seeds and updates it trains, by the speed of this machine."""

import dataclasses
import json
import time

import jax
import numpy as np
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import write_json
from discipline_jax.programs import timing
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.programs.timing import Grid
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.batches import epoch_steps

_FILE = "plan.json"


def whole_grid(config: ConfigDict, plan: Plan) -> Grid:
  """Returns all that a comparison trains if nothing bounds its time.

  Args:
    config: see `modes.compare`.
    plan: of one of its fine-tunings.
  """
  epoch = epoch_steps(len(plan.splits[0]["train"]), config.train.batch_size)
  return Grid(
    inits=len(config.compare.inits),
    rates=len(config.compare.rates),
    seeds=config.replicas,
    trial_steps=plan.num_steps,
    steps=plan.num_steps,
    epoch_steps=epoch,
    every_steps=config.eval.every_steps or epoch,
  )


def fitted_grid(config: ConfigDict, program: Finetuning, run: Workdir, started: float) -> Grid:
  """Returns the grid that fits into `compare.minutes`, and claims the workdir.

  The first start measures its speed, prints the time and writes plan.json, which later starts read.

  Args:
    config: see `modes.compare`.
    program: the first fine-tuning.
    run: the workdir of the comparison.
    started: `time.perf_counter()` when this start began.

  Raises:
    UserError: too few minutes; then nothing is written.
  """
  path = run.path / _FILE
  is_known = run.is_claimed() and path.exists()
  if jax.process_count() > 1:
    is_known = bool(multihost_utils.broadcast_one_to_all(np.bool_(is_known)))
  if is_known:
    return Grid(**json.loads(path.read_text(encoding="utf-8"))["grid"])
  whole = whole_grid(config, program.plan)
  speed = timing.measure_speed(program)
  if jax.process_count() > 1:  # all of them decide by the speed of the first
    seconds = np.array(dataclasses.astuple(speed), np.float32)
    speed = timing.Speed(*multihost_utils.broadcast_one_to_all(seconds).tolist())
  spent = time.perf_counter() - started
  grid = timing.fit(whole, speed, config.compare.minutes, spent)
  minutes = (spent + grid.seconds(speed)) / 60
  with run:
    run.claim(program.directories)
    if jax.process_index() == 0:
      _write(path, {"grid": grid, "speed": speed}, minutes)
      print(
        f"about {minutes:.3g} minutes at {1 / speed.update:.3g} updates a second: each init at {grid.rates}"
        f" rate{'s' * (grid.rates > 1)} for {grid.trial_steps} updates, and with {grid.seeds} seeds for {_length(grid)}"
        + "".join(f"; {one}" for one in cuts(grid, whole)),
        flush=True,
      )
  return grid


def cuts(grid: Grid, whole: Grid) -> list[str]:
  """Returns what `compare.minutes` has cut off, for the user."""
  told = []
  if grid.trial_steps < grid.steps:
    told.append("rates are tried for half of the updates, to keep to compare.minutes")
  if grid.seeds < whole.seeds:
    told.append(f"{grid.seeds} seeds in place of {whole.seeds}, to keep to compare.minutes")
  if grid.steps < whole.steps:
    told.append(f"{_length(grid)} in place of {_length(whole)}, to keep to compare.minutes")
  return told


def _length(grid: Grid) -> str:
  epochs = grid.steps / grid.epoch_steps
  return f"{grid.steps} updates ({epochs:.3g} epoch{'s' if epochs != 1 else ''})"


def _write(path: Path, parts: dict, minutes: float) -> None:
  content = {name: dataclasses.asdict(one) for name, one in parts.items()}
  write_json(path, content | {"minutes": minutes})
