"""Pre-trains a model on a corpus, and keeps its weights at the steps that the config names."""

import contextlib
import json
import sys
import time

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh
from ml_collections import ConfigDict

from discipline_jax import models
from discipline_jax.command_line import format_rows
from discipline_jax.corpora.prepare import prepare_everywhere
from discipline_jax.corpora.prepared import summary
from discipline_jax.corpora.source import record
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_folder
from discipline_jax.models.locate import CONFIG, CORPUS_RECORD, KEPT
from discipline_jax.programs.pretraining import Pretraining
from discipline_jax.programs.pretraining_plan import check, describe, kept_steps
from discipline_jax.runs import describe as runs_describe
from discipline_jax.runs.result import envelope
from discipline_jax.runs.resume import begin
from discipline_jax.runs.row_order import check_order
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training import loop
from discipline_jax.training.clock import Clock
from discipline_jax.training.feed import Feed
from discipline_jax.training.logs import MetricsLog
from discipline_jax.training.sharding import gather, mesh_of
from discipline_jax.training.signals import Signals
from discipline_jax.training.state import TrainState


def pretrain(
  config: ConfigDict, workdir: Path, *, dry_run: bool = False, is_cell: bool = False
) -> None:
  """Prepares the corpus if that was not done before, trains, and keeps checkpoints in Hugging Face's format.

  A run that was stopped resumes from its last checkpoint, and a finished one is only shown. The weights after each of
  the steps `checkpoint.keep_steps`, and after the last one, are kept in `steps/STEP` of the workdir:
  `model.checkpoint=WORKDIR@STEP` reads them.

  Args:
    config: see `defaults.pretrain`.
    workdir: where the run is written: config.json, metrics.jsonl, events/, checkpoints/, steps/, result.json.
    dry_run: only say what would run.
    is_cell: the run is one of several, and the caller says a line for each: say neither the plan nor the result.
  """
  started = time.perf_counter()
  run = Workdir(workdir, config)
  if dry_run:
    print(_description(config, mesh_of(config), run))
    return
  result = run.result()
  if result is None:
    mesh = mesh_of(config)
    description = _description(config, mesh, run)
    prepared = prepare_everywhere(config)
    if jax.process_index() == 0 and not is_cell:
      print(f"{format_rows(summary(prepared))}\n{description}", file=sys.stderr)
    with run, Signals() as signals:
      program = Pretraining(config, prepared, mesh)
      result = run.result() or _train(program, run, signals, started)
      run.write_result(result)
  elif jax.process_index() == 0 and not is_cell:
    print(f"finished before, so nothing is trained: {workdir}", file=sys.stderr)
  if jax.process_index() == 0 and not is_cell:
    print(format_rows(runs_describe.pretrained(result)))


def _description(config: ConfigDict, mesh: Mesh, run: Workdir) -> str:
  check(config, mesh)
  return format_rows(describe(config, mesh) | {"workdir": run.describe()})


def _train(program: Pretraining, run: Workdir, signals: Signals, started: float) -> dict:
  config = program.config
  check_order(run, program.prepared.description.get("order"))
  checkpoints, first_step, state = begin(program, run)
  size = config.train.batch_size
  clock = Clock(run.path, first_step, started, lambda step: size * program.phase(step).length)

  def keep(state: TrainState, step: int, _: loop.Metrics) -> None:
    _keep(program, run.path / KEPT / str(step), state.params)

  with (
    contextlib.closing(checkpoints),
    contextlib.closing(clock),
    contextlib.closing(MetricsLog(run.path, first_step)) as log,
    contextlib.closing(Feed(program.batches(first_step), program.update)) as feed,
  ):
    measured: dict[str, float] = {}

    def evaluate(state: TrainState, step: int, _: loop.Metrics) -> None:
      measured.update(program.measure(state))
      log.write(step, "validation", 0, **measured)

    if first_step == 0 and 0 in kept_steps(config):
      keep(state, 0, {})
    state = loop.run(
      state,
      feed.update,
      first_step=first_step,
      num_steps=program.num_steps,
      hooks=[
        loop.Hook(log.updates(program.rates), config.train.log_every_steps),
        loop.Hook(evaluate, config.eval.every_steps),
        loop.Hook(keep, steps=kept_steps(config)),
        loop.Hook(log.keep, config.checkpoint.every_steps, at_stop=True),
      ],
      checkpoints=checkpoints,
      save_every=config.checkpoint.every_steps,
      signals=signals,
      clock=clock,
    )
    waiting = feed.waiting()
    if not measured:  # the run was stopped between the last checkpoint and the result
      measured.update(program.measure(state))
  numbers = program.prepared.description["statistics"]
  return {
    **envelope(config, clock.seconds),
    "corpus": config.corpus.name,
    "tokens": numbers["tokens"],
    "entropy": numbers["entropy"],
    "objective": config.objective.kind,
    "network": program.model_config.summary,
    "commit": program.commit,
    "inputs": run.input_digests(),
    "steps": program.num_steps,
    "kept_steps": list(kept_steps(config)),
    "validation": measured,
    "tokens_per_second": clock.rate,
    "goodput": clock.goodput,
    "input_wait": waiting,
  }


def _keep(program: Pretraining, directory: Path, params: dict) -> None:
  """Writes a checkpoint in Hugging Face's format, whole or not at all."""
  is_there = (directory / CONFIG).is_file()  # a run that was stopped may have written it before
  if jax.process_count() > 1:
    # The first process decides, because all of them must take part in gathering the weights.
    is_there = bool(multihost_utils.broadcast_one_to_all(np.bool_(is_there)))
  if is_there:
    return
  params = gather(params)
  if params is None:
    return
  try:
    with whole_folder(directory, last=CONFIG) as part:
      models.save(program.model(params), part)
      (part / CORPUS_RECORD).write_text(json.dumps(record(program.config), indent=2) + "\n")
  except (UserError, OSError) as error:
    raise RunFailed(
      f"step {directory.name} cannot be kept: {error}; the last checkpoint is whole, run again to resume from it"
    ) from None
