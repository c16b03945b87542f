"""Answers whether pre-training helps on a task: trains each init at its best learning rate, beside two baselines."""

import dataclasses
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax import command_line, report
from discipline_jax.comparison import verdict
from discipline_jax.comparison.candidates import candidates, of_baselines, of_run
from discipline_jax.comparison.schedule import cuts, fitted_grid, whole_grid
from discipline_jax.comparison.trials import check_fields, make_trial, quality, run_trial
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.initialise import INITS
from discipline_jax.programs import finetuning_description
from discipline_jax.programs.baselines import fit_baselines
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.programs.timing import MIN_SEEDS, Grid
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.sharding import mesh_of

_TRIALS = ".trials"


def compare(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Trains what is missing, and ends in a table and in sentences that say what the runs show and what they do not.

  Each init of `compare.inits` tries each of `compare.rates` with one seed; at the rate that is best on validation it is
  trained with all of them. A comparison that was stopped goes on, and a finished one is only shown.

  Args:
    config: see `modes.compare`.
    workdir: has a folder for each fine-tuning, and plan.json, config.json, inputs.json, result.json and report/ of the
      whole. Trials of rates are in `.trials`, which a report passes over.
    dry_run: only say what would run.
  """
  started = time.perf_counter()
  _check(config)
  run = Workdir(workdir, config)
  result = None if dry_run else run.result()
  if result is None:
    settings = config.compare
    mesh = mesh_of(config)  # a mistake in it shows before anything is downloaded
    # How often it is evaluated is decided by the length of an epoch, which only the plan knows.
    fields = {"replicas": 1, "eval.every_steps": config.eval.every_steps or 1}
    first = _trial(config, settings.inits[0], settings.rates[0], fields)
    program = Finetuning(make_plan(first, download=not dry_run), mesh)
    _check_parts(program.plan)
    if dry_run:
      print(_description(config, program, workdir))
      return
    grid = fitted_grid(config, program, run, started)
    plan = make_plan(make_trial(first, {"replicas": grid.seeds}))
    with run:
      result = run.result() or _train(config, plan, grid, run, started)
      if jax.process_index() == 0:
        report.write(workdir)
      run.write_result(result)
  if jax.process_index() == 0:
    print(verdict.show(result))
    best = result["best_network"]
    place = workdir / result["workdirs"][best]
    print(f"\nThe models of {best} are in {place}, for --config.mode=predict and export.")
    print(f"All runs side by side: {workdir / 'report' / 'index.html'}")


def _check(config: ConfigDict) -> None:
  lists = {"inits": "model.init", "rates": "train.learning_rate"}
  check_fields(config, lists, {"model.init": INITS})
  command_line.at_least(config, 0, ("compare.minutes",))
  command_line.at_least(config, 1, ("eval.every_steps",))
  if config.replicas < MIN_SEEDS:
    raise UserError(
      f"replicas = {config.replicas}: one seed has no interval; set --config.replicas to at least {MIN_SEEDS}"
    )


def _check_parts(plan: Plan) -> None:
  for name in ("validation", "test"):
    samples = len(plan.splits[0][name])
    if samples < 2:
      raise UserError(
        f"the {name} part has {samples} sample, and nothing can be compared on it; give more rows, or the parts with"
        " task.splits"
      )


def _description(config: ConfigDict, program: Finetuning, workdir: pathlib.Path) -> str:
  grid = whole_grid(config, program.plan)
  minutes = config.compare.minutes
  bound = "" if minutes is None else f", or less, to keep to {minutes:g} minutes"
  return command_line.format_rows(
    finetuning_description.describe(program)
    | {
      "comparison": f"{', '.join(config.compare.inits)}, each at {', '.join(map('{:g}'.format, config.compare.rates))}"
      f" with one seed, and at its best rate with {grid.seeds} seeds{bound}",
      "workdir": str(workdir),
    }
  )


def _trial(config: ConfigDict, init: str, rate: float, fields: Mapping[str, Any]) -> ConfigDict:
  """Returns a fine-tuning of an init at a rate."""
  return make_trial(config, {"model.init": init, "train.learning_rate": float(rate), **fields})


def _train(config: ConfigDict, plan: Plan, grid: Grid, run: Workdir, started: float) -> dict:
  """Runs all fine-tunings and the baselines, and returns the result."""
  baselines = fit_baselines(plan)  # first, because what is wrong with the parts shows here
  trained: dict[str, _Trained] = {}
  tried: dict[str, dict[str, float | None]] = {}
  for init in config.compare.inits:
    best, tried[init] = _train_init(config, init, grid, run.path)
    if best is not None:
      trained[init] = best
  if not trained:
    raise RunFailed(
      f"the loss was not finite at any of compare.rates = {config.compare.rates}, {run.path}; give lower ones, in"
      " another --workdir"
    )
  metric = plan.task.answer.metric
  networks = {init: of_run(run.path / one.workdir) for init, one in trained.items()}
  simple = {name: of_baselines(own) for name, own in baselines.items()}
  settings = {
    init: f"rate {one.rate:g} of {', '.join(tried[init])}" for init, one in trained.items()
  }
  settings |= {
    name: ", ".join(dict.fromkeys(one.setting for one in own)) for name, own in baselines.items()
  }
  return {
    **envelope(config, started),
    "task": plan.task.name,
    "metric": metric,
    "model": config.model.checkpoint,
    "seeds": plan.seeds,
    "steps": grid.steps,
    "rates": tried,
    "workdirs": {init: one.workdir for init, one in trained.items()},
    "candidates": {
      name: {"setting": settings[name], **{part: one.scores(metric) for part, one in parts.items()}}
      for name, parts in (*networks.items(), *simple.items())
    },
    **verdict.conclude(
      metric,
      candidates(networks, simple, [init for init, one in trained.items() if one.collapsed]),
      _limits(config, plan, grid, trained, tried),
    ),
    "inputs": run.input_digests(),
  }


@dataclasses.dataclass(frozen=True)
class _Trained:
  """An init after training at its best rate.

  Attributes:
    init, rate: which.
    workdir: name of the folder of its run.
    collapsed: whether a seed of it collapsed.
  """

  init: str
  rate: float
  workdir: str
  collapsed: bool


def _train_init(
  config: ConfigDict, init: str, grid: Grid, folder: pathlib.Path
) -> tuple[_Trained | None, dict[str, float | None]]:
  """Trains an init at each rate with one seed, and at the best rate with all seeds.

  Returns:
    The trained init, or None if the loss was finite at no rate; and for each rate the validation score of its trial, or
    None if a loss was not finite.
  """
  one_seed = {"replicas": 1, "train.steps": grid.trial_steps, "eval.every_steps": grid.every_steps}
  all_seeds = {
    "replicas": grid.seeds,
    "train.steps": grid.steps,
    "eval.every_steps": grid.every_steps,
  }
  tried: dict[str, float | None] = {}
  qualities = {}
  for rate in config.compare.rates:
    place = folder / _TRIALS / f"{init}_try_{rate:g}"
    result = run_trial(_trial(config, init, rate, one_seed), place)
    tried[f"{rate:g}"] = None if result is None else result["validation"]["mean"]
    if result is not None:
      qualities[rate] = quality(place, result)
  for rate in sorted(qualities, key=lambda one: qualities[one], reverse=True):
    name = f"{init}_{rate:g}"
    result = run_trial(_trial(config, init, rate, all_seeds), folder / name)
    if result is not None:
      return _Trained(init, rate, name, result["collapsed"]), tried
    tried[f"{rate:g}"] = None
  return None, tried


def _limits(
  config: ConfigDict,
  plan: Plan,
  grid: Grid,
  trained: Mapping[str, _Trained],
  tried: Mapping[str, Mapping[str, float | None]],
) -> list[str]:
  """Returns what the comparison cannot tell because of what was trained, and on what."""
  split = plan.splits[0]
  limits = [
    "how samples from elsewhere would do: each seed splits the same table at random"
    if set(plan.features.parts) == {"all"}
    else "how another split would do: all seeds have the given one"
  ]
  if np.array_equal(split["test"], split["validation"]):
    limits.append(
      "how good any of them is on samples that chose nothing: there is no test part, so it is the validation part"
    )
  limits += [f"what more time would give: {one}" for one in cuts(grid, whole_grid(config, plan))]
  for edge, where in ((min, "lowest"), (max, "highest")):
    inits = [one.init for one in trained.values() if one.rate == edge(config.compare.rates)]
    if inits and len(config.compare.rates) > 1:
      limits.append(
        f"whether {'lower' if edge is min else 'higher'} rates are better for {', '.join(inits)}: the {where} of those"
        " tried was the best on validation"
      )
  limits += [
    f"what {init} can do: its loss was not finite at {'all' if init not in trained else 'some'} of the rates tried"
    for init, one in tried.items()
    if None in one.values() or init not in trained
  ]
  return limits
