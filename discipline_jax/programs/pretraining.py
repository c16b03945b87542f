"""The programs of a pre-training on a mesh: abstract or running, but without a workdir and without writing a file."""

import contextlib
import functools
import pathlib
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float32
from ml_collections import ConfigDict

from discipline_jax import models
from discipline_jax.corpora.prepared import Prepared
from discipline_jax.corpora.records import Records
from discipline_jax.errors import UserError
from discipline_jax.models.functional import (
  PretrainingForward,
  model_function,
  pretraining_function,
)
from discipline_jax.models.heads import encoder_of
from discipline_jax.models.initialise import abstract_params, initial_params
from discipline_jax.models.locate import hub_commit, resolve
from discipline_jax.models.platform import BATCH
from discipline_jax.programs.model import DTYPES
from discipline_jax.programs.pretraining_plan import Phase, masking, model_parts, phases
from discipline_jax.training.objectives import (
  KINDS,
  Objective,
  RowBatch,
  held_out_sums,
  pretraining_loss,
)
from discipline_jax.training.optimizers import learning_rates, make_optimizer
from discipline_jax.training.sharding import (
  check_tensor,
  held_rows,
  place,
  platform_of,
  put,
  put_rows,
  state_shardings,
)
from discipline_jax.training.state import TrainState
from discipline_jax.training.update import RATE, make_eval_step, make_train_step

_COUNTED = 1 << 14  # random training rows, which tell how frequent tokens are


class Pretraining:
  """The training and evaluation programs of a config over a prepared corpus, on a mesh.

  No weight is read or drawn before `start`.

  Attributes:
    config, prepared, mesh: as given.
    model_config: sizes of the model.
    num_steps: number of updates.
    phases: the lengths of rows, and their updates.
  """

  def __init__(self, config: ConfigDict, prepared: Prepared, mesh: Mesh):
    self.config, self.prepared, self.mesh = config, prepared, mesh
    self._checkpoint, self.model_config = model_parts(config, prepared.vocabulary)
    check_tensor(mesh, self.model_config)
    self.num_steps = config.train.steps
    self.phases = phases(config)
    kind = config.objective.kind
    self._head = models.Pretraining(next_sentence=KINDS[kind][1] is not None, remat=config.remat)
    self._objective = Objective(kind, masking(config), prepared.vocabulary)
    self._records = {phase.length: prepared.records("train", phase.length) for phase in self.phases}
    self._steps: dict[int, Callable] = {}

  @functools.cached_property
  def state(self) -> TrainState:
    """Shapes, dtypes and shardings of the state that `start` makes and a checkpoint holds."""
    params = jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype),
      abstract_params(self.model_config, self._head),
    )
    return place(self.mesh, jax.eval_shape(self._create, params))

  @functools.cached_property
  def rates(self) -> Float32[np.ndarray, " updates"]:
    """The learning rate of each update."""
    return learning_rates(self.config.train, self.num_steps)

  @property
  def directories(self) -> dict[str, pathlib.Path]:
    """The directories of the pre-trained models that are read, by the field of the config that names them."""
    found = {} if self._checkpoint is None else {"model.checkpoint": self._checkpoint}
    vocabulary = self.config.corpus.vocabulary
    with contextlib.suppress(UserError):  # a prepared corpus may not need it
      if vocabulary is not None:
        found["corpus.vocabulary"] = resolve(vocabulary, weights=False)
    return found

  @property
  def commit(self) -> str | None:
    """The commit of a checkpoint that came from the hub."""
    return None if self._checkpoint is None else hub_commit(self._checkpoint)

  @property
  def updates(self) -> dict[int, int]:
    """The number of updates of each length."""
    counts: dict[int, int] = {}
    for phase in self.phases:
      counts[phase.length] = counts.get(phase.length, 0) + phase.last - phase.first
    return counts

  def phase(self, step: int) -> Phase:
    """Returns the phase of the update that follows `step` updates."""
    return next(phase for phase in self.phases if step < phase.last)

  def lower(self, first_step: int = 0) -> dict[int, jax.stages.Lowered]:
    """Lowers the training step for the length of every phase that has updates after `first_step`."""
    return {length: one.lower() for length, one in self.trace(first_step).items()}

  def trace(self, first_step: int = 0) -> dict[int, jax.stages.Traced]:
    """Traces what `lower` lowers for the platform of the mesh."""
    loss = pretraining_loss(self._forward, self._objective, self.config.seed)
    optimizer = partial(make_optimizer, self.config.train)
    step = make_train_step(loss, optimizer, self.mesh, self.state)
    lengths = dict.fromkeys(one.length for one in self.phases if first_step < one.last)
    return {
      length: step.trace(self.state, RATE, self._abstract_batch(length), None) for length in lengths
    }

  def compile(self, lowered: Mapping[int, jax.stages.Lowered]) -> None:
    """Compiles what `lower` returned.

    A TPU's compiler then reports a phase that does not fit into memory before training starts. CPU and GPU report it
    only when that phase runs.
    """
    self._steps = {length: one.compile() for length, one in lowered.items()}

  def start(self) -> TrainState:
    """Reads or draws the weights, and returns the state before the first update."""
    config = self.config
    params = initial_params(
      config.model.init, self.model_config, self._head, self._checkpoint, config.seed
    )
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
    params = put(params, state_shardings(self.mesh, params))
    shardings = state_shardings(self.mesh, self.state)
    return jax.jit(self._create, out_shardings=shardings)(params)

  def update(self, state: TrainState, step: int, batch: RowBatch) -> tuple[TrainState, dict]:
    """Makes the update that follows `step` updates; returns the state and the metrics."""
    return self._steps[batch.ids.shape[-1]](state, self.rates[step], batch, None)

  def batches(self, first_step: int) -> Generator[RowBatch, None, None]:
    """Yields, on the mesh, the batches of the updates that follow `first_step` updates."""
    config = self.config
    size, parts = config.train.batch_size, config.train.grad_accumulation
    # Of an axis `tensor` over several processes, each needs the same rows.
    held = held_rows(self._rows_sharding(2), (parts, size // parts))

    def lay(values: np.ndarray) -> jax.Array:
      # Row r of part p is row r * parts + p of the update, so that each process has rows of all parts.
      values = values.reshape(-1, parts, *values.shape[1:]).swapaxes(0, 1)
      shape = (parts, size // parts, *values.shape[2:])
      return put_rows(values, held, self._rows_sharding(len(shape)), shape)

    for phase in self.phases:
      if phase.last <= first_step:
        continue
      # If rows of this length were used before, go on behind them.
      used = sum(
        one.last - one.first
        for one in self.phases
        if one.length == phase.length and one.last <= phase.first
      )
      rows = self._records[phase.length].batches(
        first=used + max(0, first_step - phase.first),
        last=used + phase.last - phase.first,
        rows=(held[:, None] * parts + np.arange(parts)).ravel(),
        batch_size=size,
        seed=config.seed,
      )
      for batch in rows:
        yield RowBatch(**{name: lay(values) for name, values in batch.items()})

  def measure(self, state: TrainState) -> dict[str, float]:
    """Returns losses and accuracies on the held-out rows, always with the same masks.

    Beside them stands the loss that needs no context: a model whose loss is not lower has learnt only how frequent
    tokens are.
    """
    size = self.config.eval.batch_size
    sharding = NamedSharding(self.mesh, PartitionSpec(BATCH))
    pad_id = self.prepared.vocabulary.pad_id
    total: dict[str, float] = {}
    for number, start in enumerate(range(0, len(self._held_out["ids"]), size)):
      part = {
        name: _filled(values[start : start + size], size, pad_id if name == "ids" else 0)
        for name, values in self._held_out.items()
      }
      batch = RowBatch(**{name: put(values, sharding) for name, values in part.items()})
      sums = self._eval_step(state.params, (batch, np.int32(number)), None)
      for name, value in sums.items():
        total[name] = total.get(name, 0.0) + float(np.asarray(value)[0])
    means = {name: float(value) for name, value in self._objective.means(total).items()}
    return means | {f"{self._objective.tokens}_loss_without_context": self._without_context}

  def model(self, params: dict) -> nnx.Module:
    """Returns the model with parameters of a state, as `models.save` takes it."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf[0]), params)
    network = model_function(self.model_config, self._head)(params)
    encoder_of(network).source = self.prepared.directory
    return network

  @functools.cached_property
  def _forward(self) -> PretrainingForward:
    dtype = DTYPES[self.config.model.dtype]
    return pretraining_function(self.model_config, self._head, dtype, platform_of(self.mesh))

  @functools.cached_property
  def _create(self) -> Callable[[dict], TrainState]:
    # Its state does not depend on the rate.
    optimizer = make_optimizer(self.config.train, lambda _: 0.0)
    return partial(TrainState.create, optimizer=optimizer)

  @functools.cached_property
  def _eval_step(self) -> Callable:
    return make_eval_step(held_out_sums(self._forward, self._objective), self.mesh)

  @functools.cached_property
  def _held_out(self) -> dict[str, np.ndarray]:
    records: Records = self.prepared.records("validation", self.phases[0].length)
    return records.first(self.config.eval.max_examples)

  @functools.cached_property
  def _without_context(self) -> float:
    # Opened again, because a thread reads the other ones.
    records = self.prepared.records("train", self.phases[0].length)
    count = min(_COUNTED, records.size)
    batches = records.batches(first=0, last=1, rows=np.arange(count), batch_size=count, seed=0)
    with contextlib.closing(batches):
      seen = next(batches)["ids"]
    return self._objective.loss_without_context(seen, self._held_out["ids"])

  def _rows_sharding(self, ndim: int) -> NamedSharding:
    return NamedSharding(self.mesh, PartitionSpec(None, BATCH, *[None] * (ndim - 2)))

  def _abstract_batch(self, length: int) -> RowBatch:
    parts = self.config.train.grad_accumulation
    lead = (parts, self.config.train.batch_size // parts)

    def abstract(shape: tuple[int, ...], dtype) -> Any:
      return jax.ShapeDtypeStruct(shape, dtype, sharding=self._rows_sharding(len(shape)))

    ids = abstract((*lead, length), self._records[length].dtype)
    return RowBatch(ids, abstract(lead, np.int32), abstract(lead, np.int32))


def _filled(values: np.ndarray, size: int, filler: int) -> np.ndarray:
  """Pads an array to `size` rows."""
  widths = [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)]
  return np.pad(values, widths, constant_values=filler)
