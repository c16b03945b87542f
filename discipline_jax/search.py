"""Searches each init's best optimizer and learning rate on validation, by successive halving."""

import math
import pathlib
import time
from collections.abc import Mapping

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.comparison.trials import check_fields, make_trial, quality, run_trial
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.initialise import INITS
from discipline_jax.programs import finetuning_description
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.batches import epoch_steps
from discipline_jax.training.optimizers import OPTIMIZERS
from discipline_jax.training.sharding import mesh_of

_Choice = tuple[str, float]  # an optimizer and a rate


def search(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
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
    first = _trial(config, settings.inits[0], (settings.optimizers[0], settings.rates[0]))
    mesh = mesh_of(config)  # a mistake in it shows before anything is downloaded
    program = Finetuning(make_plan(first, download=not dry_run), mesh)
    rungs = _rungs(config, program.num_steps)
    if dry_run:
      print(_description(config, program, rungs, workdir))
      return
    with run:
      result = run.result()
      if result is None:
        run.claim(program.directories)
        result = _train(config, program.plan, rungs, run, started)
        run.write_result(result)
  if jax.process_index() == 0:
    print(_show(result))


def _check(config: ConfigDict) -> None:
  lists = {"inits": "model.init", "optimizers": "train.optimizer", "rates": "train.learning_rate"}
  check_fields(config, lists, {"model.init": INITS, "train.optimizer": OPTIMIZERS})
  command_line.at_least(config, 1, ("search.rungs", "eval.every_steps"))
  command_line.at_least(config, 2, ("search.factor",))


def _trial(
  config: ConfigDict, init: str, choice: _Choice, steps: int | None = None, every_steps: int = 1
) -> ConfigDict:
  """Returns the fine-tuning of a candidate for so many updates, or None: as the config says."""
  fields = {
    "model.init": init,
    "train.optimizer": choice[0],
    "train.learning_rate": float(choice[1]),
  }
  length = {} if steps is None else {"train.steps": steps}
  return make_trial(
    config, fields | length | {"eval.every_steps": config.eval.every_steps or every_steps}
  )


def _rungs(config: ConfigDict, num_steps: int) -> list[tuple[int, int]]:
  """Returns the number of updates and of candidates of each rung."""
  factor, count = config.search.factor, config.search.rungs
  candidates = len(config.search.optimizers) * len(config.search.rates)
  steps = [round(num_steps / factor ** (count - 1 - i)) for i in range(count)]
  if steps[0] < 1:
    raise UserError(
      f"search.rungs = {count} with search.factor = {factor} leave less than an update of {num_steps} for the first"
      " rung; lower one of them, or train longer"
    )
  numbers = [candidates]
  while len(numbers) < count:
    numbers.append(math.ceil(numbers[-1] / factor))
  return list(zip(steps, numbers, strict=True))


def _updates(config: ConfigDict, rungs: list[tuple[int, int]]) -> tuple[int, int]:
  """Returns the updates of the search, all seeds counted, and those of all candidates in full."""
  runs = len(config.search.inits) * config.replicas
  return runs * sum(steps * number for steps, number in rungs), runs * rungs[-1][0] * rungs[0][1]


def _description(
  config: ConfigDict, program: Finetuning, rungs: list[tuple[int, int]], workdir: pathlib.Path
) -> str:
  search, grid = _updates(config, rungs)
  numbers = ", then ".join(f"{number} for {steps} updates" for steps, number in rungs)
  return command_line.format_rows(
    finetuning_description.describe(program)
    | {
      "search": f"for each of {', '.join(config.search.inits)}: {numbers}, with {config.replicas} seeds;"
      f" {search:,} updates, {100 * search / grid:.0f}% of the full grid",
      "workdir": str(workdir),
    }
  )


def _train(
  config: ConfigDict, plan: Plan, rungs: list[tuple[int, int]], run: Workdir, started: float
) -> dict:
  epoch = epoch_steps(len(plan.splits[0]["train"]), config.train.batch_size)
  found = {init: _search_init(config, init, rungs, epoch, run.path) for init in config.search.inits}
  made = sum(rung["steps"] * len(rung["runs"]) for one in found.values() for rung in one["rungs"])
  return {
    **envelope(config, started),
    "task": plan.task.name,
    "metric": plan.task.answer.metric,
    "model": config.model.checkpoint,
    "replicas": config.replicas,
    "updates": config.replicas * made,
    "updates_of_full_grid": _updates(config, rungs)[1],
    "inits": found,
    "inputs": run.input_digests(),
  }


def _search_init(
  config: ConfigDict, init: str, rungs: list[tuple[int, int]], epoch: int, folder: pathlib.Path
) -> dict:
  """Returns what each rung of an init gave, best first, and the winner of the last one."""
  choices = [(name, rate) for name in config.search.optimizers for rate in config.search.rates]
  told: list[dict] = []
  for steps, number in rungs:
    rows, qualities = {}, {}
    for choice in choices[:number]:
      place = folder / f"{init}_{choice[0]}_{choice[1]:g}_{steps}"
      result = run_trial(_trial(config, init, choice, steps, epoch), place)
      rows[choice] = _row(choice, place, result)
      if result is not None:
        qualities[choice] = quality(place, result)
    choices = sorted(qualities, key=lambda one: qualities[one], reverse=True)
    if not choices:
      raise RunFailed(
        f"the loss of no candidate of {init} was finite after {steps} updates, {folder}; give lower search.rates, in"
        " another --workdir"
      )
    failed = [choice for choice in rows if choice not in qualities]
    told.append({"steps": steps, "runs": [rows[choice] for choice in (*choices, *failed)]})
  return {"rungs": told, "winner": told[-1]["runs"][0]}


def _row(choice: _Choice, place: pathlib.Path, result: Mapping | None) -> dict:
  row = {"optimizer": choice[0], "rate": float(choice[1]), "workdir": place.name}
  if result is None:
    return row | {"validation": None, "test": None}
  parts = {
    part: {name: result[part][name] for name in ("mean", "std", "runs", "intervals", "samples")}
    for part in ("validation", "test")
  }
  return row | parts | {"collapsed": result["collapsed"]}


def _show(result: Mapping) -> str:
  """Returns the table of a finished search: the last rung of each init, best first."""
  rows: list[tuple[str, ...]] = [("init", "optimizer", "rate", "validation", "test", "")]
  notes = []
  for init, found in result["inits"].items():
    last = found["rungs"][-1]
    for row in last["runs"]:
      scores = [
        "not finite" if row[part] is None else f"{row[part]['mean']:.1f} ± {row[part]['std']:.1f}"
        for part in ("validation", "test")
      ]
      remark = "winner" if row == found["winner"] else ""
      rows.append((init, row["optimizer"], f"{row['rate']:g}", *scores, remark))
    notes.append(_note(init, found, result["metric"]))
  share = 100 * result["updates"] / result["updates_of_full_grid"]
  cost = f"{result['updates']:,} updates, {share:.0f}% of the full grid"
  return "\n".join(
    [
      f"\n{result['task']} ({result['metric']}), {cost}\n",
      command_line.format_columns(rows),
      "",
      *notes,
    ]
  )


def _note(init: str, found: Mapping, metric: str) -> str:
  """Returns a sentence about an init's winner, and how many others its validation interval does not exclude."""
  winner, first = found["winner"], found["rungs"][0]["runs"]
  text = f"{init}: {winner['optimizer']} at {winner['rate']:g}"
  rates = [row["rate"] for row in first if row["optimizer"] == winner["optimizer"]]
  if len(rates) > 1 and winner["rate"] in (min(rates), max(rates)):
    text += f", the {'lowest' if winner['rate'] == min(rates) else 'highest'} rate tried"
  intervals = winner["validation"]["intervals"]
  if None in intervals:
    return f"{text}."
  low, high = np.mean(intervals, axis=0).tolist()
  return (
    f"{text}. A 95% interval of its validation {metric}, for one seed, is {low:.1f} to {high:.1f}"
    f" ({min(winner['validation']['samples'])} samples); candidates within it may be as good."
  )
