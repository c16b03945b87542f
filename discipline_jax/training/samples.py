"""Holds the samples of fine-tuning on the device, and makes the loss of the samples that a batch names.

Every device holds all samples, and a batch is a set of indices into them. A replica has its own parameters,
token map, batches and dropout.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, Integer

from discipline_jax.models.functional import Forward
from discipline_jax.streams import DROPOUT, STRANDS
from discipline_jax.tasks.answer import Answer
from discipline_jax.tasks.features import PAD
from discipline_jax.training.state import Leaf
from discipline_jax.training.update import GetLoss, Loss


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Samples:
  """All samples of a task, which the replicas share.

  Attributes:
    symbols: UInt [samples, length], see `tasks.features.Features`.
    segments: UInt8 [samples, length] or None, as there.
    targets: arrays [samples, ...] by name, as there.
    complement: Int32 [symbols], see `tasks.strands.complements`; None if one strand is read.
  """

  symbols: Leaf
  segments: Leaf | None
  targets: dict[str, Leaf]
  complement: Leaf | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Batch:
  """A batch of a group of replicas, or without the first axis the batch of one.

  Attributes:
    indices: Int32 [replicas, rows], or in training [replicas, parts, rows]: which samples; -1 is an empty place.
    lookup: Int32 [replicas, symbols]: the row of the replica's (sub-)table for each symbol, its token map.
    seeds: Int32 [replicas]: the seed of each replica.
    scale: Float32 [replicas] arrays by name, see `Answer.scale`; empty if values are not standardised.
    class_weights: Float32 [replicas, classes]: how much the loss of a sample of each class counts; None: all alike.
  """

  indices: Leaf
  lookup: Leaf
  seeds: Leaf
  scale: dict[str, Leaf] = dataclasses.field(default_factory=dict)
  class_weights: Leaf | None = None


def sample_loss(forward: Forward, answer: Answer, length: int) -> GetLoss:
  """Makes the loss of fine-tuning: the mean over all that is scored in the samples of an update.

  Args:
    forward: the model.
    answer: answer of the task.
    length: how many positions of each sample are computed; the rest must be padding.
  """

  def get_loss(step: jax.Array, samples: Samples, batch: Batch) -> Loss:
    # A stream of its own: the same seed also draws the parameters.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(batch.seeds), DROPOUT), step)
    num_parts = batch.indices.shape[0]
    targets = _targets(samples, batch.indices)
    counts = jnp.where(batch.indices >= 0, _weighted(answer.counts(targets), targets, batch), 0)
    total = jnp.maximum(1, counts.sum()) if batch.class_weights is None else counts.sum()
    strands: tuple[jax.Array, ...] = ()
    if samples.complement is not None:
      strand_key = jax.random.fold_in(
        jax.random.fold_in(jax.random.key(batch.seeds), STRANDS), step
      )
      strands = (jax.random.bernoulli(strand_key, shape=batch.indices.shape),)

    def loss_of(
      params: dict, part: jax.Array, key: jax.Array, is_reversed: jax.Array | None = None
    ) -> tuple[jax.Array, tuple]:
      output = forward(params, *_inputs(samples, batch.lookup, part, length, is_reversed), key)
      targets = _targets(samples, part)
      losses = _weighted(answer.losses(output.logits, targets | batch.scale), targets, batch)
      loss = jnp.where(part >= 0, losses, 0).sum() / total
      return loss + output.penalty / num_parts, (loss, output.statistics)

    def metrics(of_parts: tuple) -> dict:
      losses, _ = of_parts
      return {"mean_squared_error": losses.sum() * batch.scale["std"] ** 2} if batch.scale else {}

    return Loss(
      loss_of,
      (batch.indices, jax.random.split(key, num_parts), *strands),
      metrics,
      statistics=lambda of_parts: jax.tree.map(lambda x: x.mean(0), of_parts[1]),
    )

  return get_loss


def outputs_of(forward: Forward, *, of_both_strands: bool = False):
  """Makes the function that computes a model's outputs for the samples of a batch, without dropout.

  Args:
    forward: the model.
    of_both_strands: whether to return the mean of the outputs for a sample and for its other strand.
  """

  def function(params: dict, samples: Samples, batch: Batch, length: int) -> jax.Array:
    def of_strand(is_reversed: jax.Array | None) -> jax.Array:
      inputs = _inputs(samples, batch.lookup, batch.indices, length, is_reversed)
      return forward(params, *inputs, None).logits

    if not of_both_strands:
      return of_strand(None)
    return 0.5 * (of_strand(None) + of_strand(jnp.ones(batch.indices.shape, bool)))

  return function


def _weighted(values: jax.Array, targets: dict[str, jax.Array], batch: Batch) -> jax.Array:
  """Returns a value of each sample times the weight of its class."""
  if batch.class_weights is None:
    return values
  return values * jnp.take(batch.class_weights, targets["labels"], mode="clip")


def _targets(samples: Samples, indices: Int32[Array, "*batch"]) -> dict[str, jax.Array]:
  return {
    name: jnp.take(target, indices, axis=0, mode="clip") for name, target in samples.targets.items()
  }


def _inputs(
  samples: Samples,
  lookup: Int32[Array, " symbols"],
  indices: Int32[Array, " rows"],
  length: int,
  is_reversed: Bool[Array, " rows"] | None,
) -> tuple[Int32[Array, "rows length"], Bool[Array, "rows length"], Int32[Array, "..."] | None]:
  """Returns the table rows, attention mask and segments of some samples; an empty place has no token."""
  symbols = jnp.take(samples.symbols[:, :length], indices, axis=0, mode="clip")
  if is_reversed is not None:
    assert samples.complement is not None
    symbols = jnp.where(is_reversed[:, None], _other_strand(symbols, samples.complement), symbols)
  segments = None
  if samples.segments is not None:
    segments = jnp.take(samples.segments[:, :length], indices, axis=0, mode="clip")
    segments = segments.astype(jnp.int32)
  return lookup[symbols], (symbols != PAD) & (indices >= 0)[:, None], segments


def _other_strand(
  symbols: Integer[Array, "rows length"], complement: Integer[Array, " symbols"]
) -> Integer[Array, "rows length"]:
  """Returns samples read backwards, each symbol replaced by its complement; padding stays at the end."""
  positions = jnp.arange(symbols.shape[1])[None]
  lengths = (symbols != PAD).sum(1, keepdims=True)
  mirrored = jnp.take_along_axis(symbols, jnp.maximum(0, lengths - 1 - positions), axis=1)
  return jnp.where(positions < lengths, complement[mirrored], PAD).astype(symbols.dtype)
