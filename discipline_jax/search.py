"""Searches each init's best optimizer and learning rate on validation, by successive halving."""

import time

import jax
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.comparison.halving import candidate, count_updates, rungs_of, search_init
from discipline_jax.comparison.trials import check_fields
from discipline_jax.comparison.winners import show
from discipline_jax.files.places import Path
from discipline_jax.models.initialise import INITS
from discipline_jax.programs import finetuning_description
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.repeated_warnings import each_warning_once
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.batches import epoch_steps
from discipline_jax.training.optimizers import OPTIMIZERS
from discipline_jax.training.sharding import mesh_of


@each_warning_once()
def search(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Trains what is missing, and ends in a table of the winners: for each init the best optimizer and rate.

  All candidates of an init are trained for a few updates; one in `search.factor` of them, those that are best on
  validation, are trained anew for `search.factor` times as many (the learning rate decays over all updates of a run, so
  a longer run is another one), and so on, until the last rung has all updates of `train`. A search that was stopped
  goes on, and a finished one is only shown.

  Args:
    config: see `modes.search`.
    workdir: has a folder for each fine-tuning, and config.json, inputs.json, result.json of the whole.
    dry_run: only say what would run.

  References:
    Jamieson, Talwalkar, Non-stochastic best arm identification and hyperparameter optimization, 2016.
  """
  started = time.perf_counter()
  _check(config)
  run = Workdir(workdir, config)
  result = None if dry_run else run.result()
  if result is None:
    settings = config.search
    first = candidate(config, settings.inits[0], (settings.optimizers[0], settings.rates[0]))
    mesh = mesh_of(config)  # a mistake in it shows before anything is downloaded
    program = Finetuning(make_plan(first, download=not dry_run), mesh)
    rungs = rungs_of(config, program.num_steps)
    if jax.process_index() == 0:
      print(_description(config, program, rungs, run), flush=True)
    if dry_run:
      return
    with run:
      result = run.result()
      if result is None:
        run.claim(program.directories)
        result = _train(config, program.plan, rungs, run, started)
        run.write_result(result)
  if jax.process_index() == 0:
    print(show(result))


def _check(config: ConfigDict) -> None:
  lists = {"inits": "model.init", "optimizers": "train.optimizer", "rates": "train.learning_rate"}
  check_fields(config, lists, {"model.init": INITS, "train.optimizer": OPTIMIZERS})
  command_line.at_least(config, 1, ("search.rungs", "eval.every_steps"))
  command_line.at_least(config, 2, ("search.factor",))


def _description(
  config: ConfigDict, program: Finetuning, rungs: list[tuple[int, int]], run: Workdir
) -> str:
  search, grid = count_updates(config, rungs)
  numbers = ", then ".join(f"{number} for {steps} updates" for steps, number in rungs)
  return command_line.format_rows(
    finetuning_description.describe(program)
    | {
      "search": f"for each of {', '.join(config.search.inits)}: {numbers}, with {config.replicas} seeds;"
      f" {search:,} updates, {100 * search / grid:.0f}% of the full grid",
      "workdir": run.describe(),
    }
  )


def _train(
  config: ConfigDict, plan: Plan, rungs: list[tuple[int, int]], run: Workdir, started: float
) -> dict:
  epoch = epoch_steps(len(plan.splits[0]["train"]), config.train.batch_size)
  found = {init: search_init(config, init, rungs, epoch, run.path) for init in config.search.inits}
  made = sum(rung["steps"] * len(rung["runs"]) for one in found.values() for rung in one["rungs"])
  return {
    **envelope(config, time.perf_counter() - started),
    "task": plan.task.name,
    "metric": plan.task.answer.metric,
    "model": config.model.checkpoint,
    "replicas": config.replicas,
    "updates": config.replicas * made,
    "updates_of_full_grid": count_updates(config, rungs)[1],
    "inits": found,
    "inputs": run.input_digests(),
  }
