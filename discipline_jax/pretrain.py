"""Pre-trains a model on a corpus, and keeps its weights at the steps that are asked for."""

import contextlib
import dataclasses
import json
import math
import pathlib
import shutil
import sys
import time
import zlib
from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ml_collections import ConfigDict

from discipline_jax import checks, models
from discipline_jax.corpora.masking import Masking
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.prepared import Prepared, summary
from discipline_jax.corpora.source import check_corpus
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.functional import pretraining_function
from discipline_jax.models.heads import encoder_of
from discipline_jax.models.huggingface import KEPT, resolve
from discipline_jax.models.initialise import abstract_params, initial_params
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.plan import DTYPES, check_training, with_dropout
from discipline_jax.training import loop
from discipline_jax.training.checkpoints import Checkpoints
from discipline_jax.training.logs import MetricsLog
from discipline_jax.training.objectives import (
  KINDS,
  Objective,
  RowBatch,
  make_eval_step,
  make_train_step,
)
from discipline_jax.training.optimizers import make_optimizer, make_schedule
from discipline_jax.training.sharding import BATCH, make_mesh, place, put, state_shardings
from discipline_jax.training.signals import Signals
from discipline_jax.training.state import TrainState
from discipline_jax.versions import versions
from discipline_jax.workdir import Workdir


def pretrain(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Prepares the corpus where that was not done, trains, and keeps checkpoints in Hugging Face's format.

  A run that was stopped goes on from its last checkpoint, and a finished one is only shown. Each of the steps
  `checkpoint.keep_steps`, and the last one, is kept as `steps/STEP` in the workdir: `model.checkpoint=WORKDIR@STEP`.

  Args:
    config: see `defaults.pretrain`.
    workdir: where the run is written: config.json, metrics.jsonl, events/, checkpoints/, steps/, result.json.
    dry_run: only say what would run.
  """
  mesh = _check(config)
  if dry_run:
    print(_describe(config, mesh, workdir))
    return
  run = Workdir(workdir, config)
  result = run.result()
  if result is None:
    prepared = _prepare(config)
    if jax.process_index() == 0:
      print(f"{summary(prepared)}\n{_describe(config, mesh, workdir)}", file=sys.stderr)
    pretraining = _Pretraining(config, prepared, mesh)
    with run, Signals() as signals:
      result = run.result() or pretraining.run(run, signals)
      run.write_result(result)
  if jax.process_index() == 0:
    print(table(result))


def table(result: dict) -> str:
  """A finished run in a few lines."""
  measured = ", ".join(f"{name} {value:.3f}" for name, value in result["validation"].items())
  rows = {
    "corpus": f"{result['corpus']} of {result['tokens']:,} tokens, unigram entropy {result['entropy']:.3f} nats",
    "model": f"{result['network']}, {result['objective']}, {result['steps']:,} updates",
    "validation": measured,
    "kept steps": ", ".join(map(str, result["kept_steps"])),
    "time": f"{result['seconds']:.0f} s on {result['device']}"
    + (
      f", {result['tokens_per_second']:,.0f} tokens/s, at most"
      f" {100 * result['input_wait']:.1f}% of it waiting for input"
      if result["tokens_per_second"]
      else ""
    ),
  }
  return "\n".join(f"{name:10}  {value}" for name, value in rows.items())


@dataclasses.dataclass(frozen=True)
class Phase:
  """Updates `first` + 1 to `last`, on rows of `length` tokens."""

  length: int
  first: int
  last: int


def phases(config: ConfigDict) -> list[Phase]:
  """The phases of a config, one for each of `corpus.length`."""
  shares = np.array(config.train.phases)
  ends = np.round(np.cumsum(shares) / shares.sum() * config.train.steps).astype(int).tolist()
  firsts = [0, *ends[:-1]]
  return [
    Phase(length, first, last)
    for length, first, last in zip(config.corpus.length, firsts, ends, strict=True)
    if first < last
  ]


class _Pretraining:
  """A run: its model, its steps and its data."""

  def __init__(self, config: ConfigDict, prepared: Prepared, mesh: Mesh):
    self._config, self._prepared, self._mesh = config, prepared, mesh
    self._checkpoint, self._model_config = _model_config(config, prepared)
    kind = config.objective.kind
    self._head = models.Pretraining(next_sentence=KINDS[kind][1] is not None, remat=config.remat)
    self._optimizer = make_optimizer(config.train, config.train.steps)
    self._phases = phases(config)
    forward = pretraining_function(self._model_config, self._head, DTYPES[config.model.dtype])
    params = jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype),
      abstract_params(self._model_config, self._head),
    )
    self._create = partial(TrainState.create, optimizer=self._optimizer)
    self._shapes = place(mesh, jax.eval_shape(self._create, params))
    self._objective = Objective(kind, _masking(config), prepared.vocabulary)
    self._train_step = make_train_step(
      forward, self._optimizer, self._objective, mesh, self._shapes, config.seed
    )
    self._eval_step = make_eval_step(forward, self._objective, mesh, self._shapes.params)
    self._records = {
      phase.length: prepared.records("train", phase.length) for phase in self._phases
    }
    held_out = prepared.records("validation", self._phases[0].length)
    self._held_out = held_out.first(config.eval.max_examples)

  def run(self, run: Workdir, signals: Signals) -> dict:
    """Trains up to the last step, and returns the result."""
    started = time.perf_counter()
    config = self._config
    steps = config.train.steps
    kept = _kept(config)
    waited: list[float] = []
    running: dict = {}  # the metrics of the update that is computed

    def train_step(state: TrainState, step: int) -> tuple[TrainState, list[dict]]:
      nonlocal running
      clock = time.perf_counter()
      batch = next(batches)
      # The device waits only where it has nothing left to do; since when is not known, so this is the most.
      is_idle = all(value.is_ready() for value in running.values())
      waited.append(time.perf_counter() - clock if is_idle else 0)
      state, running = compiled[batch.ids.shape[-1]](state, batch)
      return state, [running]

    def keep(state: TrainState, step: int) -> None:
      self._keep(run.path / KEPT / str(step), state.params)

    measured: dict[str, float] = {}

    def evaluate(state: TrainState, step: int) -> None:
      measured.update(self._measure(state.params))
      log.write(step, "validation", 0, **measured)

    # A new run is compiled before it is claimed: too little memory leaves the workdir to the corrected run.
    compiled = self._compile()
    initial = None if run.is_claimed() else self._initial_state()
    run.claim()
    with contextlib.closing(Checkpoints(run.path / "checkpoints")) as checkpoints:
      first_step, saved = checkpoints.restore(self._shapes)
      if first_step:
        logging.warning("Going on from step %d of %s", first_step, run.path)
      state = saved or initial or self._initial_state()
      del saved, initial
      if first_step == 0 and 0 in kept:
        keep(state, 0)
      batches = self._batches(first_step)
      clock = time.perf_counter()
      with contextlib.closing(MetricsLog(run.path, first_step)) as log:
        state, tokens_per_second = loop.run(
          state,
          first_step=first_step,
          num_steps=steps,
          train_step=train_step,
          evaluate=evaluate,
          tree_to_save=lambda state: state,
          every=loop.Every(
            config.train.log_every_steps,
            config.eval.every_steps,
            config.checkpoint.every_steps,
            kept,
          ),
          schedule=jax.jit(make_schedule(config.train, steps)),
          log=log,
          checkpoints=checkpoints,
          signals=signals,
          work=lambda step: config.train.batch_size * self._phase(step).length,
          keep=keep,
        )
      elapsed = time.perf_counter() - clock
      if not measured:  # stopped between the last checkpoint and the result
        measured.update(self._measure(state.params))
    del waited[:1]  # the first one begins to read
    numbers = self._prepared.description["statistics"]
    return {
      "mode": "pretrain",
      "corpus": config.corpus.name,
      "tokens": numbers["tokens"],
      "entropy": numbers["entropy"],
      "objective": config.objective.kind,
      "network": self._model_config.summary,
      "steps": steps,
      "kept_steps": list(kept),
      "validation": measured,
      "tokens_per_second": None if math.isnan(tokens_per_second) else tokens_per_second,
      "input_wait": sum(waited) / elapsed if waited else None,
      "seconds": time.perf_counter() - started,  # of this start
      "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
      "versions": versions(),
    }

  def _phase(self, step: int) -> Phase:
    """That of the update after `step` ones."""
    return next(phase for phase in self._phases if step < phase.last)

  def _compile(self) -> dict[int, jax.stages.Compiled]:
    """The step of every phase, by length: a TPU's compiler tells now, not after days, which does not fit into memory.

    Other devices know it only when they come to it.
    """
    config = self._config
    parts = config.train.grad_accumulation
    lead = (parts, config.train.batch_size // parts)

    def blank(length: int) -> RowBatch:
      numbers = jnp.zeros(lead, jnp.int32)
      return RowBatch(jnp.zeros((*lead, length), self._records[length].dtype), numbers, numbers)

    batches = {length: jax.eval_shape(partial(blank, length)) for length in self._records}
    return {
      length: self._train_step.lower(self._shapes, batch).compile()
      for length, batch in batches.items()
    }

  def _initial_state(self) -> TrainState:
    params = initial_params(
      self._config.model.init, self._model_config, self._head, self._checkpoint, self._config.seed
    )
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
    params = put(params, state_shardings(self._mesh, params))
    shardings = state_shardings(self._mesh, self._shapes)
    return jax.jit(self._create, out_shardings=shardings)(params)

  def _batches(self, first_step: int) -> Iterator[RowBatch]:
    """The batches of the updates that follow the first `first_step`, on the mesh."""
    config = self._config
    size, parts = config.train.batch_size, config.train.grad_accumulation
    share = size // jax.process_count()
    start = jax.process_index() * share
    sharding = NamedSharding(self._mesh, PartitionSpec(None, BATCH))

    def lay(values: np.ndarray) -> jax.Array:
      # Row r of part p is row r * parts + p of the update: so each process has rows of all parts.
      values = values.reshape(-1, parts, *values.shape[1:]).swapaxes(0, 1)
      return jax.make_array_from_process_local_data(sharding, np.ascontiguousarray(values))

    for phase in self._phases:
      if phase.last <= first_step:
        continue
      rows = self._records[phase.length].batches(
        first=max(0, first_step - phase.first),
        last=phase.last - phase.first,
        rows=slice(start, start + share),
        batch_size=size,
        seed=config.seed,
      )
      for batch in rows:
        yield RowBatch(**{name: lay(values) for name, values in batch.items()})

  def _measure(self, params: dict) -> dict[str, float]:
    """Losses and accuracies on what is held out."""
    size = self._config.eval.batch_size
    sharding = NamedSharding(self._mesh, PartitionSpec(BATCH))
    pad_id = self._prepared.vocabulary.pad_id
    total: dict[str, float] = {}
    count = len(self._held_out["ids"])
    for number, start in enumerate(range(0, count, size)):
      part = {
        name: _filled(values[start : start + size], size, pad_id if name == "ids" else 0)
        for name, values in self._held_out.items()
      }
      batch = RowBatch(**{name: put(values, sharding) for name, values in part.items()})
      for name, value in self._eval_step(params, batch, np.int32(number)).items():
        total[name] = total.get(name, 0.0) + float(np.asarray(value)[0])
    return {name: float(value) for name, value in self._objective.means(total).items()}

  def _keep(self, directory: pathlib.Path, params: dict) -> None:
    """Writes a checkpoint in Hugging Face's format, which is there in whole or not at all."""
    if directory.is_dir():  # the run was stopped after it, and comes by again
      return
    if jax.process_count() > 1:
      params = multihost_utils.process_allgather(params, tiled=True)
    if jax.process_index() != 0:
      return
    graph, state = nnx.split(
      nnx.eval_shape(lambda: self._head.build(self._model_config, rngs=nnx.Rngs(0)))
    )
    nnx.replace_by_pure_dict(state, jax.tree.map(lambda leaf: np.asarray(leaf[0]), params))
    model = nnx.merge(graph, state)
    encoder_of(model).source = self._prepared.directory
    part = directory.with_name(f".{directory.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
      models.save(model, part)
      part.replace(directory)
    except UserError as error:
      shutil.rmtree(part, ignore_errors=True)
      raise RunFailed(
        f"step {directory.name} cannot be kept: {error}; the last checkpoint is whole, run again to go on"
      ) from None


def _kept(config: ConfigDict) -> tuple[int, ...]:
  """The steps to keep, with the last one."""
  last = config.train.steps
  return tuple(sorted({*(step for step in config.checkpoint.keep_steps if step < last), last}))


def _filled(values: np.ndarray, size: int, filler: int) -> np.ndarray:
  """As many rows as `size`."""
  widths = [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)]
  return np.pad(values, widths, constant_values=filler)


def _prepare(config: ConfigDict) -> Prepared:
  """By each process; those of one machine wait for the first, and find it done.

  Raises:
    UserError: as `prepare`, or processes that prepared different corpora.
  """
  prepared = prepare(config)
  if jax.process_count() > 1:
    digest = zlib.crc32(json.dumps(prepared.description, sort_keys=True).encode())
    if len(np.unique(multihost_utils.process_allgather(np.uint32(digest)))) > 1:
      raise UserError(
        "the processes have different corpora; give all the same files and the same version of this package"
      )
  return prepared


def _masking(config: ConfigDict) -> Masking:
  try:
    return Masking(**config.masking.to_dict())
  except ValueError as error:
    raise UserError(f"{error}; set --config.masking") from None


def _model_config(
  config: ConfigDict, prepared: Prepared
) -> tuple[pathlib.Path | None, models.ModelConfig]:
  """The checkpoint to begin with, if any, and the model's sizes."""
  vocabulary = prepared.vocabulary
  model_config = _sizes(config)
  if config.model.checkpoint is None:
    size, pad_id = len(vocabulary.tokens), vocabulary.pad_id
    return None, dataclasses.replace(model_config, vocab_size=size, pad_token_id=pad_id)
  checkpoint = resolve(config.model.checkpoint)
  if load_vocabulary(checkpoint, model_config.vocab_size).tokens != vocabulary.tokens:
    raise UserError(
      f"the corpus has another vocabulary than {config.model.checkpoint}; set --config.corpus.vocabulary to the same"
    )
  return checkpoint, model_config


def _sizes(config: ConfigDict) -> models.ModelConfig:
  """The model's sizes, but for those that its vocabulary decides where there is no checkpoint."""
  sizes = {name: value for name, value in config.model.config.items() if value is not None}
  is_causal = config.objective.kind == "causal"
  if config.model.checkpoint is not None:
    if sizes:
      raise UserError(
        f"model.config.{min(sizes)} is set, but the sizes come from model.checkpoint; unset one of the two, as in"
        " configs/pretrain_further.py"
      )
    model_config = models.read_config(resolve(config.model.checkpoint))
    if model_config.is_decoder != is_causal:
      raise UserError(
        f"objective.kind = {config.objective.kind!r}, but {config.model.checkpoint} is"
        f" {'' if model_config.is_decoder else 'not '}a left-to-right model; set another of the two"
      )
  else:
    sizes |= {"is_decoder": True} if is_causal else {}
    model_config = models.ModelConfig.from_dict(
      {"model_type": "bert", **sizes}, "in --config.model.config"
    )
  if KINDS[config.objective.kind][1] is not None and model_config.model_type == "roberta":
    raise UserError("RoBERTa has no task on pairs of segments; set --config.objective.kind=mlm")
  if max(config.corpus.length) > model_config.max_length:
    raise UserError(
      f"corpus.length = {config.corpus.length}, but the model has {model_config.max_length} positions; lower it, or"
      " raise model.config.max_position_embeddings"
    )
  return with_dropout(model_config, config)


def _check(config: ConfigDict) -> Mesh:
  """Everything that can be wrong before the corpus is looked at; returns the mesh."""
  check_training(config)
  checks.at_least(config, 1, ("eval.max_examples",))
  if any(step < 0 for step in config.checkpoint.keep_steps):
    raise UserError(
      f"checkpoint.keep_steps = {config.checkpoint.keep_steps} has a step below 0; set --config.checkpoint.keep_steps"
    )
  check_corpus(config)
  _masking(config)
  if (config.model.init == "scratch") != (config.model.checkpoint is None):
    raise UserError(
      f"model.init = {config.model.init!r} with model.checkpoint = {config.model.checkpoint!r}: scratch has none, and"
      " every other one begins with a checkpoint; set one of the two"
    )
  _sizes(config)
  lengths, shares = config.corpus.length, config.train.phases
  if len(lengths) != len(shares) or min(shares) < 0 or sum(shares) <= 0:
    raise UserError(
      f"train.phases = {shares} is not a share of the steps for each of corpus.length = {lengths}; set both"
    )
  mesh = make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
  shards = mesh.shape[BATCH[0]] * mesh.shape[BATCH[1]]
  if shards % jax.process_count():
    raise UserError(
      f"mesh.data x mesh.fsdp = {shards} is not a multiple of the {jax.process_count()} processes, of which each has"
      " rows of its own; lower mesh.tensor"
    )
  parts = config.train.grad_accumulation
  for name, size, wanted in (
    ("train.batch_size", config.train.batch_size, shards * parts),
    ("eval.batch_size", config.eval.batch_size, shards),
  ):
    if size % wanted:
      raise UserError(
        f"{name} = {size} is not a multiple of {wanted} ({shards} device(s) along the mesh's data axes, {parts} part(s)"
        f" of an update); set --config.{name}"
      )
  return mesh


def _describe(config: ConfigDict, mesh: Mesh, workdir: pathlib.Path) -> str:
  """What would run."""
  train = config.train
  runs = ", ".join(
    f"{phase.last - phase.first:,} updates of {train.batch_size} x {phase.length} tokens"
    for phase in phases(config)
  )
  sizes = ", ".join(
    f"{name} {value}" for name, value in config.model.config.items() if value is not None
  )
  rows = {
    "corpus": f"{config.corpus.name} ({config.corpus.path or 'drawn'}), vocabulary"
    f" {config.corpus.vocabulary or 'of its own'}",
    "model": f"{config.model.init} ({config.model.checkpoint or sizes or 'BERT-base'}), {config.model.dtype}",
    "objective": f"{config.objective.kind}, {_masking(config)}",
    "training": f"{runs}; {train.optimizer} {train.learning_rate:g}, warm-up {train.warmup_steps:,}",
    "kept steps": ", ".join(map(str, _kept(config))),
    "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}, mesh {dict(mesh.shape)}",
    "workdir": str(workdir),
  }
  return "\n".join(f"{name:10} {value}" for name, value in rows.items())
