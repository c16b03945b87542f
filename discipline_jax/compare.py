"""Answers whether pre-training helps on a task: trains each init at its best learning rate, beside two baselines."""

import contextlib
import dataclasses
import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax import command_line, verdict
from discipline_jax.cells import check_fields, make_cell, quality, run_cell
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.initialise import INITS
from discipline_jax.programs import finetuning_description, timing
from discipline_jax.programs.baselines import fit_baselines
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.batches import epoch_steps
from discipline_jax.training.sharding import mesh_of
from discipline_jax.verdict import Candidate

_GRID = "plan.json"  # what is trained, as the first start decided it by its speed


def compare(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Trains what is missing, and ends in a table and in sentences that say what the runs show and what they do not.

  Each init of `compare.inits` tries each of `compare.rates` with the first seed; at the rate that is best on validation
  it is trained with the other seeds. A comparison that was stopped goes on, and a finished one is only shown.

  Args:
    config: see `modes.compare`.
    workdir: has a folder for each fine-tuning, and plan.json, config.json, inputs.json, result.json of the whole.
    dry_run: only say what would run.
  """
  started = time.perf_counter()
  _check(config)
  run = Workdir(workdir, config)
  result = None if dry_run else run.result()
  if result is None:
    first = _cell(config, config.compare.inits[0], config.compare.rates[0])
    mesh = mesh_of(config)  # a mistake in it shows before anything is downloaded
    program = Finetuning(make_plan(first, download=not dry_run), mesh)
    grid = _whole_grid(config, program.plan)
    if dry_run:
      print(_description(config, program, grid, workdir))
      return
    grid = _fitted_grid(config, program, grid, run, started)
    with run:
      result = run.result() or _train(config, program, grid, run, started)
      run.write_result(result)
  if jax.process_index() == 0:
    print(verdict.show(result))


def _check(config: ConfigDict) -> None:
  lists = {"inits": "model.init", "rates": "train.learning_rate"}
  check_fields(config, lists, {"model.init": INITS})
  command_line.at_least(config, 0, ("compare.minutes",))
  command_line.at_least(config, 1, ("eval.every_steps",))
  if config.replicas < timing.MIN_SEEDS:
    raise UserError(
      f"replicas = {config.replicas} seed has no interval; set --config.replicas to at least {timing.MIN_SEEDS}"
    )


def _cell(
  config: ConfigDict, init: str, rate: float, grid: timing.Grid | None = None
) -> ConfigDict:
  """Returns the fine-tuning of an init at a rate with the first seed, as long as the grid says."""
  fields = {"model.init": init, "train.learning_rate": float(rate), "replicas": 1}
  if grid is None:
    every = {} if config.eval.every_steps else {"eval.every_steps": 1}  # of a plan, which has none
    return make_cell(config, fields | every)
  steps = {"train.steps": grid.steps, "eval.every_steps": grid.every_steps}
  return make_cell(config, fields | steps)


def _other_seeds(config: ConfigDict, cell: ConfigDict, seeds: int) -> ConfigDict:
  """Returns the fine-tuning of a cell with the seeds after its first one."""
  map_seed = config.token_map.seed
  return make_cell(
    cell,
    {
      "seed": config.seed + 1,
      "replicas": seeds - 1,
      "token_map.seed": None if map_seed is None else map_seed + 1,
    },
  )


def _whole_grid(config: ConfigDict, plan: Plan) -> timing.Grid:
  epoch = epoch_steps(len(plan.splits[0]["train"]), config.train.batch_size)
  return timing.Grid(
    inits=len(config.compare.inits),
    rates=len(config.compare.rates),
    seeds=config.replicas,
    steps=plan.num_steps,
    epoch_steps=epoch,
    every_steps=config.eval.every_steps or epoch,
  )


def _fitted_grid(
  config: ConfigDict, program: Finetuning, whole: timing.Grid, run: Workdir, started: float
) -> timing.Grid:
  """Returns the grid that fits into `compare.minutes`: at the first start by its speed, later that of the first start."""
  path = run.path / _GRID
  known = run.is_claimed() and path.exists()
  if jax.process_count() > 1:
    known = bool(multihost_utils.broadcast_one_to_all(np.bool_(known)))
  if known:
    return timing.Grid(**json.loads(path.read_text(encoding="utf-8"))["grid"])
  speed = timing.measure_speed(program, time.perf_counter() - started)
  if jax.process_count() > 1:  # all of them decide by the speed of the first
    seconds = np.array(dataclasses.astuple(speed), np.float32)
    speed = timing.Speed(*multihost_utils.broadcast_one_to_all(seconds).tolist())
  spent = time.perf_counter() - started
  grid = timing.fit(whole, speed, config.compare.minutes, spent)
  minutes = (spent + grid.seconds(speed)) / 60
  with run:
    run.claim(program.directories)
    if jax.process_index() == 0:
      with whole_file(path, text=True) as file:
        content = {"grid": grid, "whole": whole, "speed": speed}
        fields = {name: dataclasses.asdict(one) for name, one in content.items()}
        file.write(json.dumps(fields | {"minutes": minutes}, indent=2) + "\n")
      print(
        f"about {minutes:.3g} minutes: {grid.trainings} trainings of {_length(grid)} at"
        f" {1 / speed.update:.3g} updates a second, {speed.compile:.0f} s to compile for each rate"
        + "".join(f"; {one}" for one in _cuts(grid, whole)),
        flush=True,
      )
  return grid


def _length(grid: timing.Grid) -> str:
  epochs = grid.steps / grid.epoch_steps
  return f"{grid.steps} updates ({epochs:.3g} epoch{'s' if epochs != 1 else ''})"


def _cuts(grid: timing.Grid, whole: timing.Grid) -> list[str]:
  """Returns what `compare.minutes` has cut off."""
  cuts = []
  if grid.seeds < whole.seeds:
    cuts.append(f"{grid.seeds} seeds in place of {whole.seeds}, to keep to compare.minutes")
  if grid.steps < whole.steps:
    cuts.append(f"{_length(grid)} in place of {_length(whole)}, to keep to compare.minutes")
  return cuts
