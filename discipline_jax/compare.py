"""Answers whether pre-training helps on a task: trains each init at its best learning rate, beside two baselines."""

import dataclasses
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax import command_line, verdict
from discipline_jax.candidates import candidates, of_baselines, of_runs
from discipline_jax.cells import check_fields, make_cell, quality, run_cell
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.initialise import INITS
from discipline_jax.programs import finetuning_description
from discipline_jax.programs.baselines import fit_baselines
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.programs.timing import MIN_SEEDS, Grid
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.schedule import cuts, fitted_grid, whole_grid
from discipline_jax.training.sharding import mesh_of


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
    _check_parts(program.plan)
    if dry_run:
      print(_description(config, program, workdir))
      return
    grid = fitted_grid(config, program, run, started)
    with run:
      result = run.result() or _train(config, program.plan, grid, run, started)
      run.write_result(result)
  if jax.process_index() == 0:
    print(verdict.show(result))
    runs = ", ".join(str(workdir / name) for name in result["workdirs"][result["best_network"]])
    print(
      f"\nThe models of {result['best_network']} are in {runs}, for --config.mode=predict and export."
    )


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
  bound = "" if minutes is None else f", or fewer seeds and then epochs within {minutes:g} minutes"
  return command_line.format_rows(
    finetuning_description.describe(program)
    | {
      "comparison": f"{', '.join(config.compare.inits)}, each at {', '.join(map('{:g}'.format, config.compare.rates))}"
      f" with seed {config.seed}, and at its best rate with {grid.seeds - 1} more: {grid.trainings} trainings{bound}",
      "workdir": str(workdir),
    }
  )


def _cell(config: ConfigDict, init: str, rate: float, grid: Grid | None = None) -> ConfigDict:
  """Returns the fine-tuning of an init at a rate with the first seed, as long as the grid says."""
  every = config.eval.every_steps or 1  # before the grid says it, it is not used
  fields: dict[str, Any] = {"eval.every_steps": every if grid is None else grid.every_steps}
  if grid is not None:
    fields["train.steps"] = grid.steps
  return make_cell(
    config,
    {"model.init": init, "train.learning_rate": float(rate), "replicas": 1, **fields},
  )


def _with_other_seeds(cell: ConfigDict, seeds: int) -> ConfigDict:
  """Returns the same fine-tuning with the seeds after its first one."""
  map_seed = cell.token_map.seed
  return make_cell(
    cell,
    {
      "seed": cell.seed + 1,
      "replicas": seeds - 1,
      "token_map.seed": None if map_seed is None else map_seed + 1,
    },
  )


def _train(config: ConfigDict, plan: Plan, grid: Grid, run: Workdir, started: float) -> dict:
  """Runs all fine-tunings and the baselines, and returns the result."""
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
  one = next(iter(trained.values()))
  others = _with_other_seeds(_cell(config, one.init, one.rate, grid), grid.seeds)
  fitted = [fit_baselines(one) for one in (plan, make_plan(others))]
  baselines = {name: [one for own in fitted for one in own[name]] for name in fitted[0]}
  metric = plan.task.answer.metric
  networks = {init: of_runs(one.workdirs) for init, one in trained.items()}
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
    "seeds": list(range(config.seed, config.seed + grid.seeds)),
    "steps": grid.steps,
    "rates": tried,
    "workdirs": {init: [path.name for path in one.workdirs] for init, one in trained.items()},
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
    workdirs: the runs of the first seed and of the others.
    collapsed: whether one of them collapsed.
  """

  init: str
  rate: float
  workdirs: tuple[pathlib.Path, pathlib.Path]
  collapsed: bool


def _train_init(
  config: ConfigDict, init: str, grid: Grid, folder: pathlib.Path
) -> tuple[_Trained | None, dict[str, float | None]]:
  """Trains an init at each rate, and at the best one with all seeds.

  Returns:
    The trained init, or None if the loss was finite at no rate; and for each rate the validation score of the first
    seed, or None if its loss, or that of the other seeds, was not finite.
  """
  cells = {rate: _cell(config, init, rate, grid) for rate in config.compare.rates}
  places = {rate: folder / f"{init}_{rate:g}" for rate in cells}
  results = {rate: run_cell(cell, places[rate]) for rate, cell in cells.items()}
  finished = {rate: one for rate, one in results.items() if one is not None}
  tried = {f"{rate:g}": one and one["validation"]["mean"] for rate, one in results.items()}
  ranked = sorted(finished, key=lambda rate: quality(places[rate], finished[rate]), reverse=True)
  for rate in ranked:
    place = folder / f"{init}_{rate:g}_other_seeds"
    others = run_cell(_with_other_seeds(cells[rate], grid.seeds), place)
    if others is not None:
      collapsed = finished[rate]["collapsed"] or others["collapsed"]
      return _Trained(init, rate, (places[rate], place), collapsed), tried
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
  limits += [
    f"what longer training would give: {one}" for one in cuts(grid, whole_grid(config, plan))
  ]
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
