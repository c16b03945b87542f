"""The programs of a fine-tuning on a mesh: abstract or running, but without a workdir and without writing a file."""

import functools
import pathlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float32

from discipline_jax.files import progress
from discipline_jax.models.functional import Forward, classifier_function
from discipline_jax.models.initialise import abstract_params, initial_params, word_embeddings
from discipline_jax.programs.evaluation import compute_outputs, place_samples, score_outputs
from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.tasks.answer import Predictions
from discipline_jax.training.batches import Batches
from discipline_jax.training.optimizers import learning_rates, make_optimizer
from discipline_jax.training.samples import Batch, Samples, outputs_of, sample_loss
from discipline_jax.training.sharding import (
  check_tensor,
  num_shards,
  place,
  platform_of,
  put,
  replicated,
  rows_sharding,
  state_shardings,
)
from discipline_jax.training.state import Best, TrainState, first_best, replica_groups, update_best
from discipline_jax.training.update import RATE, make_eval_step, make_train_step

_COMPILERS = 2  # programs that are compiled at the same time

# What a checkpoint holds: `states` and `bests`, a list each with one entry for each group of replicas.
State = dict[str, list]


class Finetuning:
  """The training and evaluation programs of a plan on a mesh.

  No weight is read and no device is used before `start`, so `lower` also works for devices that this machine lacks.

  Attributes:
    plan, mesh: the arguments.
    groups: slices of the replicas that are trained side by side.
    batches: the order of the samples.
    num_steps: number of updates.
  """

  def __init__(self, plan: Plan, mesh: Mesh):
    config = plan.config
    check_tensor(mesh, plan.model.config)
    self.plan, self.mesh = plan, mesh
    self.groups = replica_groups(len(plan.seeds), platform_of(mesh))
    self.num_steps = plan.num_steps
    self.batches = Batches(
      np.stack([split["train"] for split in plan.splits]).astype(np.int32),
      plan.seeds,
      plan.lengths,
      batch_size=config.train.batch_size,
      accumulation=config.train.grad_accumulation,
      row_multiple=num_shards(mesh, self._group_size),
    )
    self._steps: dict[int, Callable] = {}

  @functools.cached_property
  def state(self) -> State:
    """Shapes, dtypes and shardings of the state that `start` makes and a checkpoint holds."""
    states = [self._abstract_state(group) for group in self.groups]
    bests = [place(self.mesh, jax.eval_shape(first_best, state)) for state in states]
    return {"states": states, "bests": bests}

  @property
  def directories(self) -> dict[str, pathlib.Path]:
    """The directory of the pre-trained model, by the field of the config that names it."""
    checkpoint = self.plan.model.checkpoint
    return {} if checkpoint is None else {"model.checkpoint": checkpoint}

  @property
  def updates(self) -> dict[int, int]:
    """The number of updates of each length, of all groups of replicas; after an epoch, as many as in the first one."""
    first = min(self.num_steps, self.batches.steps_per_epoch)
    lengths = [self.batches.at(step, group)[1] for step in range(first) for group in self.groups]
    share = self.num_steps / first
    return {int(n): round(share * lengths.count(n)) for n in np.unique(lengths)}

  @functools.cached_property
  def rates(self) -> Float32[np.ndarray, " updates"]:
    """The learning rate of each update."""
    return learning_rates(self.plan.config.train, self.num_steps)

  def lower(self, first_step: int = 0) -> dict[int, jax.stages.Lowered]:
    """Lowers the training step for every length of the updates after `first_step`; all groups of replicas share it."""
    return {length: one.lower() for length, one in self.trace(first_step).items()}

  def trace(self, first_step: int = 0) -> dict[int, jax.stages.Traced]:
    """Traces what `lower` lowers for the platform of the mesh."""
    state, samples = self.state["states"][0], self._abstract_samples()
    return {
      length: self._train_step(length).trace(state, RATE, samples, self._abstract_batch())
      for length in self._lengths(first_step)
    }

  def compile(self, lowered: Mapping[int, jax.stages.Lowered]) -> None:
    """Compiles what `lower` returned, or reads it from the cache, so that too little memory shows before the run."""
    with ThreadPoolExecutor(_COMPILERS) as pool:
      compiled = {length: pool.submit(one.compile) for length, one in lowered.items()}
      self._steps = {
        length: compiled[length].result()
        for length in progress.bar(compiled, desc="compiling", unit="length", leave=False)
      }

  def start(self) -> State:
    """Reads or draws the weights, and returns the state before the first update."""
    states = [self._initial_state(group) for group in self.groups]
    first = jax.jit(first_best, out_shardings=state_shardings(self.mesh, self.state["bests"][0]))
    return {"states": states, "bests": [first(state) for state in states]}

  def update(self, state: State, step: int) -> tuple[State, list[dict]]:
    """Makes the update that follows `step` updates; returns the state and each group's metrics."""
    states, metrics = [], []
    for i, group in enumerate(self.groups):
      indices, length = self.batches.at(step, group)
      batch = self._batch(put(indices, rows_sharding(self.mesh, indices.shape)), group)
      rate = self.rates[step]
      new, measured = self._steps[length](state["states"][i], rate, self._samples, batch)
      states.append(new)
      metrics.append(measured)
    return {"states": states, "bests": state["bests"]}, metrics

  def predictions(self, params: list[dict], part: str, max_examples: int = -1) -> list[Predictions]:
    """Computes the outputs of each replica for a part of its split, and scores them.

    Args:
      params: parameters of each group of replicas.
      part: name of the part.
      max_examples: the most sequences to use, the first ones of the part, with all of their windows; -1: all.
    """
    plan = self.plan
    params = self.restored(params)
    own = [split[part].astype(np.int32) for split in plan.splits]
    if max_examples != -1:
      own = [plan.features.of_first(one, max_examples) for one in own]
    longest = max(map(len, own))  # replicas may have other numbers of windows
    indices = np.stack([np.pad(one, (0, longest - len(one)), constant_values=-1) for one in own])
    predictions = []
    for group, weights in zip(self.groups, params, strict=True):
      outputs = self.outputs(weights, group, indices[group])
      for samples, scale, one in zip(own[group], plan.scales[group], outputs, strict=True):
        predictions.append(
          score_outputs(plan.task, plan.features, samples, one[: len(samples)], scale)
        )
    return predictions

  def restored(self, params: list[dict]) -> list[dict]:
    """Returns the parameters of each group whose outputs are not standardised: its scale is folded into the head."""
    scales = [self._batch_constants[group.start][2] for group in self.groups]
    restored = self.plan.task.answer.restored
    return [restored(own, scale) for own, scale in zip(params, scales, strict=True)]

  def outputs(self, params: dict, group: slice, indices: np.ndarray) -> np.ndarray:
    """Computes the outputs [replicas, samples, ...] of a group of replicas for the samples `indices`."""

    def step(rows: jax.Array, length: int) -> jax.Array:
      return self._eval_step(params, self._samples, self._batch(rows, group), length)

    batch_size = self.plan.config.eval.batch_size
    return compute_outputs(step, self.mesh, indices, self.plan.lengths, batch_size)

  def keep_best(self, state: State, scores: np.ndarray) -> None:
    """Replaces, in `state`, the best parameters of each replica whose score is higher than before."""
    for i, group in enumerate(self.groups):
      own = put(scores[group].astype(np.float32), replicated(self.mesh))
      state["bests"][i] = self._take_best(state["bests"][i], state["states"][i], own)

  @property
  def _group_size(self) -> int:
    return len(self.plan.seeds[self.groups[0]])

  @functools.cached_property
  def _forward(self) -> Forward:
    plan, platform = self.plan, platform_of(self.mesh, self._group_size)
    return classifier_function(
      plan.trained_config, plan.task.answer.head, plan.model.dtype, platform
    )

  @functools.cached_property
  def _create(self) -> Callable[[dict], TrainState]:
    train = self.plan.config.train
    optimizer = make_optimizer(train, lambda _: 0.0)  # its state does not depend on the rate
    return partial(TrainState.create, optimizer=optimizer, parameters=train.parameters)

  @functools.cached_property
  def _samples(self) -> Samples:
    return place_samples(self.mesh, self.plan.features, self.plan.complement)

  @functools.cached_property
  def _eval_step(self) -> Callable:
    outputs = outputs_of(self._forward, of_both_strands=self.plan.averages_strands)
    return make_eval_step(outputs, self.mesh)

  @functools.cached_property
  def _take_best(self) -> Callable[[Best, TrainState, jax.Array], Best]:
    shardings = state_shardings(self.mesh, self.state["bests"][0])
    return jax.jit(update_best, donate_argnums=0, out_shardings=shardings)

  def _lengths(self, first_step: int) -> list[int]:
    """Returns the lengths of the batches after `first_step`; after a whole epoch all lengths may come."""
    left = self.num_steps - first_step
    if left >= self.batches.steps_per_epoch:
      used = np.concatenate([split["train"] for split in self.plan.splits])
      return np.unique(self.plan.lengths[used]).tolist()
    steps = range(first_step, self.num_steps)
    return sorted({self.batches.at(step, group)[1] for step in steps for group in self.groups})

  def _train_step(self, length: int) -> jax.stages.Wrapped:
    loss = sample_loss(self._forward, self.plan.task.answer, length)
    state, train = self.state["states"][0], self.plan.config.train
    return make_train_step(loss, partial(make_optimizer, train), self.mesh, state, train.parameters)

  def _batch(self, indices: jax.Array, group: slice) -> Batch:
    return Batch(indices, *self._batch_constants[group.start])

  @functools.cached_property
  def _batch_constants(self) -> dict[int, tuple]:
    """All of a `Batch` but its indices for each group, on the devices, by the number of its first replica."""
    whole, plan = replicated(self.mesh), self.plan
    return {
      group.start: (
        put(np.stack([table.lookup for table in plan.sub_tables[group]]), whole),
        put(np.array(plan.seeds[group], np.int32), whole),
        {
          name: put(np.stack([scale[name] for scale in plan.scales[group]]), whole)
          for name in plan.scales[0]
        },
        None if plan.class_weights is None else put(plan.class_weights[group], whole),
      )
      for group in self.groups
    }

  def _abstract_samples(self) -> Samples:
    features, whole = self.plan.features, replicated(self.mesh)

    def abstract(array: np.ndarray | None):
      return (
        None if array is None else jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=whole)
      )

    targets: dict[str, Any] = {name: abstract(array) for name, array in features.targets.items()}
    symbols: Any = abstract(features.symbols)
    return Samples(symbols, abstract(features.segments), targets, abstract(self.plan.complement))

  def _abstract_batch(self) -> Batch:
    group, whole = self.groups[0], replicated(self.mesh)
    indices, _ = self.batches.at(0, group)
    count, symbols = len(indices), len(self.plan.sub_tables[0].lookup)
    shapes: list[Any] = [
      jax.ShapeDtypeStruct(
        indices.shape, np.int32, sharding=rows_sharding(self.mesh, indices.shape)
      ),
      jax.ShapeDtypeStruct((count, symbols), np.int32, sharding=whole),
      jax.ShapeDtypeStruct((count,), np.int32, sharding=whole),
      {
        name: jax.ShapeDtypeStruct((count,), np.float32, sharding=whole)
        for name in self.plan.scales[0]
      },
      None
      if self.plan.class_weights is None
      else jax.ShapeDtypeStruct(
        (count, self.plan.class_weights.shape[1]), np.float32, sharding=whole
      ),
    ]
    return Batch(*shapes)

  def _abstract_state(self, group: slice) -> TrainState:
    plan = self.plan
    num_replicas = len(plan.seeds[group])
    params = abstract_params(plan.model.config, plan.task.answer.head)
    table = word_embeddings(params)
    table["weight"] = jax.ShapeDtypeStruct(
      (plan.trained_config.vocab_size, *table["weight"].shape[1:]), table["weight"].dtype
    )
    params = jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct((num_replicas, *leaf.shape), leaf.dtype), params
    )
    return place(self.mesh, jax.eval_shape(self._create, params))

  def _initial_state(self, group: slice) -> TrainState:
    """Returns a group of replicas at step 0, with the embedding rows that their task can reach."""
    plan, replicas = self.plan, []
    for seed, sub_table in zip(plan.seeds[group], plan.sub_tables[group], strict=True):
      params = initial_params(
        plan.config.model.init,
        plan.model.config,
        plan.task.answer.head,
        plan.model.checkpoint,
        seed,
        pretrained_layers=plan.config.model.pretrained_layers,
      )
      embeddings = word_embeddings(params)
      embeddings["weight"] = sub_table.cut(embeddings["weight"])
      replicas.append(params)
    params = jax.tree.map(_stack, *replicas)
    del replicas
    params = put(params, state_shardings(self.mesh, params))
    shardings = state_shardings(self.mesh, jax.eval_shape(self._create, params))
    return jax.jit(self._create, out_shardings=shardings)(params)


def _stack(*leaves: jax.Array | np.ndarray) -> np.ndarray:
  """Stacks one leaf of each replica; the leaf of a single replica is not copied."""
  return np.asarray(leaves[0])[None] if len(leaves) == 1 else np.stack(leaves)
