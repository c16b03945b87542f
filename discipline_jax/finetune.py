"""Fine-tunes a model on a task, for one or several replicas (seeds) at once."""

import contextlib
import sys
import time

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax.command_line import format_rows
from discipline_jax.files.places import Path
from discipline_jax.programs import finetuning_description
from discipline_jax.programs.finetuning import Finetuning, State
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.repeated_warnings import each_warning_once
from discipline_jax.runs import describe
from discipline_jax.runs.predictions import write_predictions
from discipline_jax.runs.result import envelope, scores
from discipline_jax.runs.resume import begin
from discipline_jax.runs.saved import Inputs, write_model
from discipline_jax.runs.workdir import Workdir
from discipline_jax.tasks.answer import Measured
from discipline_jax.training import loop
from discipline_jax.training.clock import Clock
from discipline_jax.training.logs import MetricsLog
from discipline_jax.training.sharding import gather, mesh_of
from discipline_jax.training.signals import Signals


@each_warning_once()
def finetune(
  config: ConfigDict, workdir: Path, *, dry_run: bool = False, is_cell: bool = False
) -> None:
  """Trains on the task's training part, keeps the best parameters on validation, and scores them on test.

  A run that was stopped resumes from its last checkpoint, and a finished one is only shown.

  Args:
    config: see `defaults.finetune`.
    workdir: where the run is written: config.json, metrics.jsonl, events/, checkpoints/, model/, predictions.npz,
      result.json.
    dry_run: only say what would run.
    is_cell: the run is one of several, and the caller says a line for each: say neither the plan nor the result.
  """
  started = time.perf_counter()
  run = Workdir(workdir, config)
  if dry_run:
    print(_description(Finetuning(make_plan(config), mesh_of(config)), run))
    return
  result = run.result()
  if result is None:
    mesh = mesh_of(config)  # a mistake in it shows before anything is downloaded
    program = Finetuning(make_plan(config, download=True), mesh)
    if jax.process_index() == 0 and not is_cell:
      print(_description(program, run), file=sys.stderr)
    with run, Signals() as signals:
      result = run.result() or _train(program, run, signals, started)
      run.write_result(result)
  elif jax.process_index() == 0 and not is_cell:
    print(f"finished before, so nothing is trained: {workdir}", file=sys.stderr)
  if jax.process_index() == 0 and not is_cell:
    print(format_rows(describe.finetuned(result)))


def _description(program: Finetuning, run: Workdir) -> str:
  return format_rows(finetuning_description.describe(program) | {"workdir": run.describe()})


def _train(program: Finetuning, run: Workdir, signals: Signals, started: float) -> dict:
  config = program.plan.config
  checkpoints, first_step, state = begin(program, run)
  examples = len(program.plan.seeds) * config.train.batch_size
  clock = Clock(run.path, first_step, started, lambda _: examples)
  with (
    contextlib.closing(checkpoints),
    contextlib.closing(clock),
    contextlib.closing(MetricsLog(run.path, first_step)) as log,
  ):

    def evaluate(state: State, step: int, _: loop.Metrics) -> None:
      params = [one.params for one in state["states"]]
      predictions = program.predictions(params, "validation", config.eval.max_examples)
      measured = [one.measured for one in predictions]
      _log(log, program, step, "validation", measured)
      # If the last weights are wanted, later ones count as better.
      ranks = [one.score if config.eval.select == "best" else step for one in measured]
      program.keep_best(state, np.array(ranks))

    state = loop.run(
      state,
      program.update,
      first_step=first_step,
      num_steps=program.num_steps,
      hooks=[
        loop.Hook(log.updates(program.rates), config.train.log_every_steps),
        loop.Hook(evaluate, config.eval.every_steps),
        loop.Hook(log.keep, config.checkpoint.every_steps, at_stop=True),
      ],
      checkpoints=checkpoints,
      save_every=config.checkpoint.every_steps,
      signals=signals,
      clock=clock,
    )
    finished = _finish(program, run, state["bests"], log)
  return {
    **envelope(config, clock.seconds),
    **finished,
    "inputs": run.input_digests(),
    "examples_per_second": clock.rate,
    "goodput": clock.goodput,
  }


def _finish(program: Finetuning, run: Workdir, bests: list, log: MetricsLog) -> dict:
  """Scores the best weights on validation and test, writes them, and returns the scores and the settings."""
  plan = program.plan
  params = [best.params for best in bests]
  tests = [name for name in plan.splits[0] if name.startswith("test")]
  predictions = {name: program.predictions(params, name) for name in ("validation", *tests)}
  measured = {name: [one.measured for one in part] for name, part in predictions.items()}
  groups = [gather(group) for group in program.restored(params)]
  if jax.process_index() == 0:
    weights = _by_seed(plan.seeds, groups)
    write_model(run.path, plan.task, model_inputs(plan), weights, plan.sub_tables)
    write_predictions(run.path, plan.seeds, predictions)
  for name in tests:
    _log(log, program, program.num_steps, name, measured[name])
  return {
    "task": plan.task.name,
    "metric": plan.task.answer.metric,
    "model": plan.config.model.checkpoint,
    "commit": plan.model.commit,
    "network": plan.model.config.summary,
    "init": plan.config.model.init,
    "token_map": plan.token_map,
    **({"standardised": [_as_json(one) for one in plan.scales]} if plan.scales[0] else {}),
    "replicas": len(plan.seeds),
    **{
      name: scores(part, plan.task.answer.metric)
      | {"in_training": [one[name].samples for one in plan.parts.overlaps]}
      for name, part in measured.items()
    },
    "best_steps": np.concatenate([np.asarray(best.step) for best in bests]).tolist(),
    "steps": program.num_steps,
    "collapsed": any(one.collapsed for one in measured["validation"]),
  }


def model_inputs(plan: Plan) -> Inputs:
  """Returns how the inputs of a plan's model are made, as its workdir keeps it."""
  return Inputs(
    plan.max_length,
    np.unique(plan.lengths),
    plan.seeds,
    plan.features.symbol_ids,
  )


def _as_json(scale: dict) -> dict[str, float]:
  return {name: float(value) for name, value in scale.items()}


def _log(
  log: MetricsLog, program: Finetuning, step: int, part: str, measured: list[Measured]
) -> None:
  metric = program.plan.task.answer.metric
  for replica, one in enumerate(measured):
    log.write(step, part, replica, loss=one.loss, **one.errors, **{metric: one.score})


def _by_seed(seeds: list[int], groups: list[dict]) -> dict[int, dict]:
  """Returns the parameters of each replica, by seed, given those of the groups."""
  replicas = [(group, i) for group in groups for i in range(len(jax.tree.leaves(group)[0]))]
  return {
    seed: jax.tree.map(lambda leaf, i=i: leaf[i], group)
    for seed, (group, i) in zip(seeds, replicas, strict=True)
  }
