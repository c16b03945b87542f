"""Compares the gradients that different mini-batches give networks before training."""

import functools
import pathlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.analysis import gradients
from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.places import make_folder
from discipline_jax.measures.found import Found
from discipline_jax.measures.networks import Network, batches
from discipline_jax.models.functional import classifier_function

_NAMES = ("cosine", "dot", "distance")


def measure(config: ConfigDict, networks: list[Network], folder: pathlib.Path) -> Found:
  """Returns cosine, dot product and distance of the gradients of all pairs of mini-batches, for each network.

  A mini-batch has `train.batch_size` samples of the training part; all networks have the same ones.

  Args:
    config: see `modes.analyze`.
    networks: one or more.
    folder: where the gradients of one network at a time are kept; it is made if it does not exist.

  Raises:
    UserError: fewer than two mini-batches.
    OSError: the disk has not enough space.
  """
  plan, size = networks[0].plan, config.train.batch_size
  train = np.random.default_rng(config.seed).permutation(plan.splits[0]["train"])
  number = _num_batches(config, len(train))
  make_folder(folder)  # of a workdir in a bucket, the local one in its place
  rows, drawn = [], {}
  for network in networks:
    path = folder / "gradients.bin"
    vectors = _gradients(network, train[: number * size], size)
    length = sum(leaf.size for leaf in jax.tree.leaves(network.params))
    bar = progress.bar(vectors, total=number, unit="batch", desc=network.name, disable=None)
    try:
      gradients.write(path, bar, number, length)
      products = gradients.products(path, number, length)
    finally:
      path.unlink(missing_ok=True)
    pairs = gradients.compare_pairs(products)
    drawn[network.name] = pairs["cosine"]
    rows += [
      {
        "network": network.name,
        "measure": name,
        "mean": _finite(np.mean(pairs[name])),
        "std": _finite(np.std(pairs[name], ddof=1)) if number > 2 else None,
        **{f"q{q}": _finite(np.percentile(pairs[name], q)) for q in (0, 25, 50, 75, 100)},
        "pairs": len(pairs[name]),
        "batches": number,
        "parameters": length,
      }
      for name in _NAMES
    ]
  summary: list[tuple[str, ...]] = [
    ("network", "mean cosine", "smallest cosine (gradient confusion)", "mean distance")
  ]
  for network in networks:
    own = {row["measure"]: row for row in rows if row["network"] == network.name}
    values = (own["cosine"]["mean"], own["cosine"]["q0"], own["distance"]["mean"])
    summary.append((network.name, *("-" if one is None else f"{one:.4g}" for one in values)))
  return Found(rows, summary, [], functools.partial(_draw, cosines=drawn))


def _num_batches(config: ConfigDict, num_samples: int) -> int:
  """Returns the number of mini-batches, without a short one, whose gradient would be noisier."""
  size = config.train.batch_size
  number = min(config.analysis.batches, num_samples // size)
  if number < 2:
    remedy = (
      "raise --config.analysis.batches"
      if config.analysis.batches < 2
      else "lower --config.train.batch_size"
    )
    raise UserError(
      f"{number} mini-batch of {size} samples in {num_samples} training samples has no pair; {remedy}"
    )
  return number


def _gradients(network: Network, samples: np.ndarray, size: int) -> Iterator[np.ndarray]:
  """Yields the gradient of the mean loss of each mini-batch, as a vector over all parameters that inputs reach."""
  plan = network.plan
  answer, features = plan.task.answer, plan.features
  forward = classifier_function(network.config, answer.head, plan.model.dtype)

  @jax.jit
  def gradient(params: dict, inputs: dict, targets: dict, key: jax.Array | None) -> jax.Array:
    def loss(params: dict) -> jax.Array:
      ids, mask, segments = (inputs[n] for n in ("ids", "attention_mask", "token_type_ids"))
      output = forward(params, ids, mask, segments, key)
      return answer.losses(output.logits, targets).sum() / answer.counts(targets).sum()

    return ravel_pytree(jax.grad(loss)(params))[0]

  for number, batch in enumerate(batches(plan, samples, size)):
    targets = {name: jnp.asarray(one[batch.samples]) for name, one in features.targets.items()}
    key, inputs = network.key(number), network.inputs(batch)
    yield np.asarray(gradient(network.params, inputs, {**targets, **network.scale}, key))


def _finite(value: float) -> float | None:
  return float(value) if np.isfinite(value) else None


def _draw(figure: Figure, cosines: dict[str, np.ndarray]) -> None:
  axes = figure.add_subplot()
  axes.boxplot(list(cosines.values()), tick_labels=list(cosines), whis=(0, 100))
  axes.set(ylabel="cosine of the gradients of two mini-batches")
