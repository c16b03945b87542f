"""Fine-tunes a model on a task, for one or several replicas (seeds) at once."""

import contextlib
import math
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np
import optax
from absl import logging
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax.describe import describe
from discipline_jax.evaluation import Measured, measure, place_batch, place_samples, predict
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import abstract_params, initial_params, word_embeddings
from discipline_jax.plan import Plan, make_plan
from discipline_jax.saved import write_model
from discipline_jax.training import loop
from discipline_jax.training.checkpoints import Checkpoints
from discipline_jax.training.logs import MetricsLog
from discipline_jax.training.optimizers import make_optimizer, make_schedule
from discipline_jax.training.sharding import (
  place,
  put,
  replicated,
  state_shardings,
)
from discipline_jax.training.signals import Signals
from discipline_jax.training.state import TrainState, first_best, replica_groups, update_best
from discipline_jax.training.steps import DeviceData, make_eval_step, make_train_step
from discipline_jax.versions import versions
from discipline_jax.workdir import Workdir


def finetune(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Trains on the task's training part, keeps the best parameters on validation, and scores them on test.

  A run that was stopped goes on from its last checkpoint, and a finished one is only shown.

  Args:
    config: see `defaults.finetune`.
    workdir: where the run is written: config.json, metrics.jsonl, events/, checkpoints/, result.json.
    dry_run: only say what would run.
  """
  if dry_run:
    print(describe(make_plan(config), workdir))
    return
  run = Workdir(workdir, config)
  result = run.result()
  if result is None:
    plan = make_plan(config, download=True)  # before anything is written
    if jax.process_index() == 0:
      print(describe(plan, workdir), file=sys.stderr)
    with run, Signals() as signals:
      result = run.result() or _train(plan, run, signals)
      run.write_result(result)
  if jax.process_index() == 0:
    print(table(result))


def table(result: dict) -> str:
  """A finished run in a few lines."""

  def scores(part: str) -> str:
    values = result[part]
    each = ", ".join(f"{score:.1f}" for score in values["runs"])
    return (
      f"{values['mean']:5.1f} ± {values['std']:.1f}   ({each})"
      if len(values["runs"]) > 1
      else f"{values['mean']:5.1f}"
    )

  rows = {
    "task": f"{result['task']} ({result['metric']})",
    "model": f"{result['model'] or result.get('network')}, {result['init']}, token map {result['token_map']}",
    **{part: scores(part) for part in result if part == "validation" or part.startswith("test")},
    "best step": f"{', '.join(str(step) for step in result['best_steps'])} of {result['steps']}",
    "time": f"{result['seconds']:.0f} s on {result['device']}"
    + (
      f", {result['examples_per_second']:.1f} training examples/s"
      if result["examples_per_second"]
      else ""
    ),
  }
  if result["collapsed"]:
    rows["collapsed"] = (
      "a replica predicts (nearly) the same for every validation sample: its score says nothing of the model;"
      " try a lower train.learning_rate, train.warmup_steps, another seed, or more epochs"
    )
  width = max(map(len, rows))
  return "\n".join(f"{name:{width}}  {value}" for name, value in rows.items())


def _train(plan: Plan, run: Workdir, signals: Signals) -> dict:
  started = time.perf_counter()
  config, mesh = plan.config, plan.mesh
  optimizer = make_optimizer(config.train, plan.num_steps)
  forward = classifier_function(plan.trained_config, plan.head, plan.dtype)
  groups = replica_groups(len(plan.seeds))
  shapes = [abstract_state(plan, optimizer, group) for group in groups]
  best_shapes = [place(mesh, jax.eval_shape(first_best, shape)) for shape in shapes]
  best_shardings = state_shardings(mesh, best_shapes[0])
  data = [device_data(plan, group) for group in groups]
  compiled_step = make_train_step(forward, optimizer, mesh, shapes[0])
  eval_step = make_eval_step(forward, mesh, shapes[0].params)
  take_best = jax.jit(update_best, donate_argnums=0, out_shardings=best_shardings)
  # Compiled, or read from the cache, while the weights are read.
  indices, length = plan.batches.at(0, groups[0])
  lowered = compiled_step.lower(shapes[0], data[0], place_batch(mesh, indices), length)
  background = ThreadPoolExecutor(max_workers=1)
  compilation = background.submit(lowered.compile)
  background.shutdown(wait=False)

  def start() -> dict:
    states = [initial_state(plan, optimizer, group) for group in groups]
    best = jax.jit(first_best, out_shardings=best_shardings)
    return {"states": states, "bests": [best(state) for state in states]}

  def train_step(states: list[TrainState], step: int) -> tuple[list[TrainState], list[dict]]:
    pairs = []
    for state, part, group in zip(states, data, groups, strict=True):
      indices, length = plan.batches.at(step, group)
      pairs.append(compiled_step(state, part, place_batch(mesh, indices), length))
    return [state for state, _ in pairs], [metrics for _, metrics in pairs]

  def measure_all(params: list[dict], split: str, max_examples: int = -1) -> list[Measured]:
    indices = np.stack([part[split] for part in plan.splits])
    indices = indices if max_examples == -1 else indices[:, :max_examples]
    logits = np.concatenate(
      [
        predict(mesh, eval_step, one, part, indices[group], plan.lengths, config.eval.batch_size)
        for one, part, group in zip(params, data, groups, strict=True)
      ]
    )
    return [measure(plan, *one) for one in zip(indices, logits, strict=True)]

  def write(step: int, split: str, measured: list[Measured]) -> None:
    for replica, one in enumerate(measured):
      log.write(step, split, replica, loss=one.loss, **{plan.task.metric: one.score})

  def evaluate(states: list[TrainState], step: int) -> None:
    measured = measure_all(
      [state.params for state in states], "validation", config.eval.max_examples
    )
    write(step, "validation", measured)
    # The last one counts as the best where the last is asked for.
    scores = [one.score if config.eval.select == "best" else step for one in measured]
    for i, (state, group) in enumerate(zip(states, groups, strict=True)):
      bests[i] = take_best(
        bests[i], state, put(np.array(scores[group], np.float32), replicated(mesh))
      )

  # The weights of a new run are read before it is claimed: a mistake leaves the workdir to the corrected run.
  # A run that goes on does not read them.
  initial = None if run.is_claimed() else start()
  run.claim()
  with contextlib.closing(Checkpoints(run.path / "checkpoints")) as checkpoints:
    first_step, saved = checkpoints.restore({"states": shapes, "bests": best_shapes})
    if first_step:
      logging.warning("Going on from step %d of %s", first_step, run.path)
    both = saved or initial or start()
    states, bests = both["states"], both["bests"]
    del saved, initial, both  # the first update gives their memory back
    compilation.result()
    with contextlib.closing(MetricsLog(run.path, first_step)) as log:
      states, examples_per_second = loop.run(
        states,
        first_step=first_step,
        num_steps=plan.num_steps,
        train_step=train_step,
        evaluate=evaluate,
        tree_to_save=lambda states: {"states": states, "bests": bests},
        every=loop.Every(
          config.train.log_every_steps, config.eval.every_steps, config.checkpoint.every_steps
        ),
        schedule=jax.jit(make_schedule(config.train, plan.num_steps)),
        log=log,
        checkpoints=checkpoints,
        signals=signals,
        work=lambda step: len(plan.seeds) * config.train.batch_size,
      )
      chosen = [best.params for best in bests]
      tests = [name for name in plan.splits[0] if name.startswith("test")]
      measured = {name: measure_all(chosen, name) for name in ("validation", *tests)}
      weights = _by_seed(plan.seeds, chosen)
      if jax.process_index() == 0:
        write_model(run.path, plan, weights)
      for name in tests:
        write(plan.num_steps, name, measured[name])
  return {
    "mode": "finetune",
    "task": plan.task.name,
    "metric": plan.task.metric,
    "model": config.model.checkpoint,
    "network": plan.model_config.summary,
    "init": config.model.init,
    "token_map": config.token_map.kind,
    "replicas": len(plan.seeds),
    **{name: _summary(part) for name, part in measured.items()},
    "best_steps": np.concatenate([np.asarray(best.step) for best in bests]).tolist(),
    "steps": plan.num_steps,
    "collapsed": any(one.collapsed for one in measured["validation"]),
    "examples_per_second": None if math.isnan(examples_per_second) else examples_per_second,
    "seconds": time.perf_counter() - started,  # of this start
    "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    "versions": versions(),
  }


def initial_state(plan: Plan, optimizer: optax.GradientTransformation, group: slice) -> TrainState:
  """A group of replicas at step 0, on the mesh, with the embedding rows that their task can reach."""
  replicas = []
  for seed, sub_table in zip(plan.seeds[group], plan.sub_tables[group], strict=True):
    params = initial_params(
      plan.config.model.init, plan.model_config, plan.head, plan.checkpoint, seed
    )
    embeddings = word_embeddings(params)
    embeddings["weight"] = sub_table.cut(embeddings["weight"])
    replicas.append(params)
  params = jax.tree.map(_stack, *replicas)
  del replicas
  params = put(params, state_shardings(plan.mesh, params))
  create = partial(TrainState.create, optimizer=optimizer)
  shardings = state_shardings(plan.mesh, jax.eval_shape(create, params))
  return jax.jit(create, out_shardings=shardings)(params)


def _stack(*leaves: jax.Array) -> np.ndarray:
  """A leaf of each replica, one after the other; that of a single one is not copied."""
  return np.asarray(leaves[0])[None] if len(leaves) == 1 else np.stack(leaves)


def abstract_state(plan: Plan, optimizer: optax.GradientTransformation, group: slice) -> TrainState:
  """Shapes and shardings of `initial_state`."""
  num_replicas = len(plan.seeds[group])
  params = abstract_params(plan.model_config, plan.head)
  table = word_embeddings(params)
  table["weight"] = jax.ShapeDtypeStruct(
    (plan.trained_config.vocab_size, *table["weight"].shape[1:]), table["weight"].dtype
  )
  params = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct((num_replicas, *leaf.shape), leaf.dtype),
    params,
  )
  return place(plan.mesh, jax.eval_shape(partial(TrainState.create, optimizer=optimizer), params))


def device_data(plan: Plan, group: slice) -> DeviceData:
  """The samples, and the token maps and seeds of a group of replicas, whole on every device."""
  lookups = [sub_table.lookup for sub_table in plan.sub_tables[group]]
  return place_samples(plan.mesh, plan.features, lookups, plan.seeds[group])


def _by_seed(seeds: list[int], params: list[dict]) -> dict[int, dict]:
  """The parameters of each replica, out of those of the groups."""
  gathered = [multihost_utils.process_allgather(group, tiled=True) for group in params]
  whole = jax.tree.map(lambda *leaves: np.concatenate(leaves), *gathered)
  return {seed: jax.tree.map(lambda leaf, i=i: leaf[i], whole) for i, seed in enumerate(seeds)}


def _summary(measured: list[Measured]) -> dict:
  scores = [one.score for one in measured]
  return {
    "mean": float(np.mean(scores)),
    "std": float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
    "runs": scores,
  }
