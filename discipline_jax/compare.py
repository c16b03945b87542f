"""Answers whether pre-training helps on a task: trains each init at its best learning rate, beside two baselines."""

import time
from collections.abc import Sequence

import jax
from ml_collections import ConfigDict

from discipline_jax import command_line, report
from discipline_jax.comparison import verdict
from discipline_jax.comparison.candidates import candidates, of_baselines, of_run
from discipline_jax.comparison.inits import Trained, init_trial, train_init
from discipline_jax.comparison.limits import limits
from discipline_jax.comparison.schedule import fitted_grid, whole_grid
from discipline_jax.comparison.trials import check_fields, make_trial
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.files.places import Path
from discipline_jax.models.initialise import INITS
from discipline_jax.programs import finetuning_description
from discipline_jax.programs.baselines import Baseline, fit_baselines
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.programs.linear_models import PENALTY
from discipline_jax.programs.timing import MIN_SEEDS, Grid
from discipline_jax.repeated_warnings import each_warning_once
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.sharding import mesh_of


@each_warning_once()
def compare(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Trains what is missing, and ends in a table and in sentences that say what the runs show and what they do not.

  Each init of `compare.inits` tries each of `compare.rates` with one seed; at the rate that is best on validation it is
  trained with all of them. A comparison that was stopped goes on, and a finished one is only shown.

  Args:
    config: see `modes.compare`.
    workdir: has a folder for each fine-tuning, and plan.json, config.json, inputs.json, result.json and report/ of the
      whole. Trials of rates are in `.trials`, which a report passes over.
    dry_run: only say what would run.

  Raises:
    UserError: a mistake in the config or the data, a part with fewer than two samples, or too little time.
    RunFailed: no training of any init had a finite loss.
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
    first = init_trial(config, settings.inits[0], settings.rates[0], fields)
    program = Finetuning(make_plan(first, download=not dry_run), mesh)
    _check_parts(program.plan)
    if jax.process_index() == 0:
      print(_description(config, program, run), flush=True)
    if dry_run:
      return
    grid = fitted_grid(config, program, run, started)
    plan = make_plan(make_trial(first, {"replicas": grid.seeds}))
    with run:
      result = run.result() or _train(config, plan, grid, run, started)
      run.write_result(result)
  if jax.process_index() == 0:
    page = workdir / "report" / "index.html"
    if not page.exists():  # it shows the result, so that it comes behind it
      report.write(workdir)
    print(verdict.show(result, config.to_dict()))
    best = result["best_network"]
    place = workdir / result["workdirs"][best]
    print(f"\nThe models of {best} are in {place}, for --config.mode=predict and export.")
    print(f"All runs side by side: {page}")


def _check(config: ConfigDict) -> None:
  lists = {"inits": "model.init", "rates": "train.learning_rate"}
  check_fields(config, lists, {"model.init": INITS})
  command_line.at_least(config, 0.1, ("compare.minutes",))
  command_line.at_least(config, 1, ("eval.every_steps",))
  if config.replicas < MIN_SEEDS:
    raise UserError(
      f"replicas = {config.replicas}: one seed has no interval; set --config.replicas to at least {MIN_SEEDS}"
    )


def _check_parts(plan: Plan) -> None:
  for name in ("validation", "test"):
    samples = plan.features.num_sequences(plan.splits[0][name])
    if samples < 2:
      raise UserError(
        f"the {name} part has {samples} sample(s), but a comparison needs at least 2; give more rows, or say with"
        " --config.task.splits which rows are in which part"
      )


def _description(config: ConfigDict, program: Finetuning, run: Workdir) -> str:
  grid = whole_grid(config, program.plan)
  minutes = config.compare.minutes
  bound = "" if minutes is None else f", or less, to keep to {minutes:g} minutes"
  return command_line.format_rows(
    finetuning_description.describe(program)
    | {
      "comparison": f"{', '.join(config.compare.inits)}, each at {', '.join(map('{:g}'.format, config.compare.rates))}"
      f" with one seed, and at its best rate with {grid.seeds} seeds{bound}",
      "workdir": run.describe(),
    }
  )


def _train(config: ConfigDict, plan: Plan, grid: Grid, run: Workdir, started: float) -> dict:
  """Runs all fine-tunings and the baselines, and returns the result."""
  baselines = fit_baselines(plan)  # first, because what is wrong with the parts shows here
  trained: dict[str, Trained] = {}
  tried: dict[str, dict[str, float | None]] = {}
  for init in config.compare.inits:
    best, tried[init] = train_init(config, init, grid, run.path)
    if best is not None:
      trained[init] = best
  if not trained:
    raise RunFailed(
      f"the loss was not finite at any of compare.rates = {config.compare.rates}, {run.path}; set lower"
      " --config.compare.rates, and another --workdir"
    )
  metric = plan.task.answer.metric
  networks = {init: of_run(run.path / one.workdir) for init, one in trained.items()}
  simple = {name: of_baselines(own) for name, own in baselines.items()}
  settings = {
    init: f"rate {one.rate:g} of {', '.join(tried[init])}" for init, one in trained.items()
  }
  settings |= {name: _settings(own) for name, own in baselines.items()}
  return {
    **envelope(config, time.perf_counter() - started),
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
      limits(config, plan, grid, trained, tried),
    ),
    "inputs": run.input_digests(),
  }


def _settings(baselines: Sequence[Baseline]) -> str:
  """Returns the settings of a baseline with all seeds; what stands before the penalty is said once."""
  first, *others = dict.fromkeys(one.setting for one in baselines)
  return ", ".join([first, *(one.rpartition(PENALTY)[2] for one in others)])
