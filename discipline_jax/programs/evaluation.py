"""Runs a trained model over samples, and scores its outputs."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int, Int32

from discipline_jax.tasks.answer import Layout, Predictions
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.features import Features
from discipline_jax.tasks.positions import PositionAnswer
from discipline_jax.tasks.windows import first_rows, mean_over_windows
from discipline_jax.training.samples import Samples
from discipline_jax.training.sharding import num_shards, put, replicated, rows_sharding


def place_samples(
  mesh: Mesh, features: Features, complement: Int32[np.ndarray, " symbols"] | None = None
) -> Samples:
  """Puts all samples whole onto every device.

  Args:
    mesh: the devices.
    features: the samples.
    complement: see `Samples`.
  """
  whole = replicated(mesh)
  return Samples(
    symbols=put(features.symbols, whole),
    segments=None if features.segments is None else put(features.segments, whole),
    targets={name: put(target, whole) for name, target in features.targets.items()},
    complement=None if complement is None else put(complement, whole),
  )


def compute_outputs(
  eval_step: Callable[[jax.Array, int], jax.Array],
  mesh: Mesh,
  indices: Int[np.ndarray, "replicas samples"],
  all_lengths: Int[np.ndarray, " all_samples"],
  batch_size: int,
  progress: Callable[[int], object] = lambda _: None,
) -> np.ndarray:
  """Returns the outputs [replicas, samples, ...] of a model for some samples.

  Samples of one compiled length go together, in batches, the last of which is filled up: the outputs for a sample do
  not depend on the others. If outputs have an axis of tokens, the positions behind a sample's compiled length are 0.

  Args:
    eval_step: (indices of a batch [replicas, rows], length) -> outputs [replicas, rows, ...].
    mesh: where it runs.
    indices: the samples of each replica.
    all_lengths: lengths of all samples, each one that is compiled.
    batch_size: samples a batch, rounded up to a multiple of the mesh's shards.
    progress: called with the number of samples of each batch.
  """
  shards = num_shards(mesh, len(indices))
  size = -(-batch_size // shards) * shards
  lengths = all_lengths[indices]
  order = np.argsort(lengths, axis=1, kind="stable")
  # Replicas have samples of their own and share a batch, so it is as long as the longest of them.
  longest = np.take_along_axis(lengths, order, axis=1).max(0)
  batches: list[tuple[np.ndarray, np.ndarray]] = []
  start = 0
  while start < indices.shape[1]:
    same = int(np.searchsorted(longest, longest[start], side="right")) - start
    places = order[:, start : start + min(size, same)]
    rows = np.take_along_axis(indices, places, axis=1).astype(np.int32)
    padded = np.pad(rows, ((0, 0), (0, size - rows.shape[1])))
    batch = put(padded, rows_sharding(mesh, padded.shape))
    outputs = np.asarray(eval_step(batch, int(longest[start])))
    batches.append((places, outputs[:, : rows.shape[1]]))
    start += rows.shape[1]
    progress(rows.shape[1])
  # The last batch has the longest samples, so outputs for each token are widest there.
  result: np.ndarray = np.zeros((*indices.shape, *batches[-1][1].shape[2:]), np.float32)
  replicas = np.arange(len(indices))[:, None]
  for places, outputs in batches:
    inner: Any = [slice(width) for width in outputs.shape[2:]]
    result[(replicas, places, *inner)] = outputs
  return result


def score_outputs(
  task: Task,
  features: Features,
  samples: Int32[np.ndarray, " samples"],
  outputs: np.ndarray,
  scale: Mapping[str, Any],
) -> Predictions:
  """Scores the outputs of some samples; of windows, those of a sequence together.

  If there is one answer for a whole sequence, the mean of its windows' outputs gives it. If there is one for each
  symbol, the window that decides on it gives it.

  Args:
    task: the task.
    features: all its samples.
    samples: numbers of the samples, or of windows that follow each other.
    outputs: outputs [samples, ...], not standardised.
    scale: see `Answer.scale`.
  """
  answer, windows = task.answer, features.windows
  owners = features.sequences(samples)
  firsts = first_rows(owners)
  sequences, groups = owners[firsts], features.groups[samples[firsts]]
  targets = {name: target[samples[firsts]] for name, target in features.targets.items()}
  own = outputs
  if isinstance(answer, PositionAnswer):
    own_windows = None if windows is None else windows.some(samples)
    layout = Layout(features.lengths[samples], int(task.add_special_tokens), own_windows)
    labels = features.targets["labels"][samples]
    targets["labels"] = layout.by_symbol(labels, answer.unscored)
    own = layout.by_symbol(outputs, 0)
  elif windows is not None:
    own = outputs = mean_over_windows(outputs, owners)
    samples = sequences
  measured = answer.measure(own, {**targets, **scale}, groups)
  return Predictions(samples, outputs, answer.units(sequences, groups), measured)
