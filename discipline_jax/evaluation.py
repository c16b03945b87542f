"""Runs a trained model over samples and scores it."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from discipline_jax.plan import Plan
from discipline_jax.tasks.features import Features
from discipline_jax.tasks.metrics import predictions, score, vote
from discipline_jax.training.sharding import BATCH, put, replicated
from discipline_jax.training.steps import DeviceData


def place_samples(
  mesh: Mesh, features: Features, lookups: Sequence[np.ndarray], seeds: Sequence[int]
) -> DeviceData:
  """The samples, and the token maps and seeds of some replicas, whole on every device."""
  whole = replicated(mesh)
  return DeviceData(
    symbols=put(features.symbols, whole),
    segments=None if features.segments is None else put(features.segments, whole),
    labels=put(features.labels, whole),
    lookup=put(np.stack(lookups), whole),
    seeds=put(np.array(seeds, np.int32), whole),
  )


def place_batch(mesh: Mesh, indices: np.ndarray) -> jax.Array:
  """Spreads the last axis of a batch's indices over the mesh."""
  spec = jax.sharding.PartitionSpec(*[None] * (indices.ndim - 1), BATCH)
  return put(indices, jax.sharding.NamedSharding(mesh, spec))


def predict(
  mesh: Mesh,
  eval_step,
  params: dict,
  data: DeviceData,
  indices: np.ndarray,
  all_lengths: np.ndarray,
  batch_size: int,
  progress: Callable[[int], object] = lambda _: None,
) -> np.ndarray:
  """Logits [replicas, samples, outputs] of the samples `indices` [replicas, samples].

  Samples of one compiled length go together, in batches, the last of which is filled up: what is computed for a
  sample does not depend on the others.

  Args:
    mesh, eval_step, params, data: see `training.steps.make_eval_step`.
    indices: samples of each replica.
    all_lengths: of all samples, each one that is compiled.
    batch_size: samples a batch, rounded up to what the mesh divides.
    progress: called with the number of samples of each batch.
  """
  shards = mesh.shape[BATCH[0]] * mesh.shape[BATCH[1]]
  size = -(-batch_size // shards) * shards
  lengths = all_lengths[indices]
  order = np.argsort(lengths, axis=1, kind="stable")
  # Replicas have samples of their own, and share a batch: its length is that of the longest.
  longest = np.take_along_axis(lengths, order, axis=1).max(0)
  logits: np.ndarray | None = None
  start = 0
  while start < indices.shape[1]:
    same = int(np.searchsorted(longest, longest[start], side="right")) - start
    places = order[:, start : start + min(size, same)]
    rows = np.take_along_axis(indices, places, axis=1).astype(np.int32)
    padded = np.pad(rows, ((0, 0), (0, size - rows.shape[1])))
    batch = np.asarray(eval_step(params, data, place_batch(mesh, padded), int(longest[start])))
    if logits is None:
      logits = np.empty((*indices.shape, batch.shape[-1]), np.float32)
    np.put_along_axis(logits, places[..., None], batch[:, : rows.shape[1]], axis=1)
    start += rows.shape[1]
    progress(rows.shape[1])
  assert logits is not None  # no part of a split is empty
  return logits


@dataclasses.dataclass(frozen=True)
class Measured:
  """One replica on one part: mean loss over samples, score, and whether all predictions are (nearly) the same."""

  loss: float
  score: float
  collapsed: bool


def measure(plan: Plan, indices: np.ndarray, logits: np.ndarray) -> Measured:
  """Scores the logits [samples, outputs] of the samples `indices` [samples]."""
  task, labels = plan.task, plan.features.labels[indices]
  predicted = predictions(logits, len(task.labels))
  if task.labels:
    losses = np.logaddexp.reduce(logits, axis=-1) - logits[np.arange(len(labels)), labels]
    collapsed = len(np.unique(predicted)) == 1
  else:
    losses = np.square(predicted - labels)
    collapsed = bool(predicted.std() < 0.01 * labels.std())
  if task.vote:
    pieces = plan.features.pieces[indices]
    truth = vote(labels, pieces, "first")
    votes = vote(predicted, pieces, task.vote)
    labels = np.array([truth[piece] for piece in votes])
    predicted = np.array(list(votes.values()))
  return Measured(float(losses.mean()), score(task.metric, labels, predicted), collapsed)
