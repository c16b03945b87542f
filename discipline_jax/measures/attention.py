"""Compares where networks look: the distance of their attention maps, heads matched, layer by layer."""

import functools
import itertools

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.analysis.attention import (
  distances_from_uniform,
  head_distances,
  matched_distance,
)
from discipline_jax.errors import UserError
from discipline_jax.measures.found import Found, label_layers
from discipline_jax.measures.networks import Network, chosen_samples, run_encoder, shown_batches

_UNIFORM = "uniform"  # stands for attention that is the same for all tokens


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns, for each pair of networks and each layer, the mean distance of matched heads over the inputs.

  Beside it stands the distance of each network's heads from uniform attention.

  Args:
    config: see `modes.analyze`.
    networks: one or more.

  Raises:
    UserError: networks of unequal numbers of layers.
  """
  depths = [len(network.config.layer_order) for network in networks]
  if len({*depths}) > 1:
    raise UserError(
      f"the networks have {', '.join(map(str, depths))} layers, so that no layer has its own; compare networks of"
      " equal depth"
    )
  plan = networks[0].plan
  samples = chosen_samples(config, plan)
  run = [run_encoder(network, output_attentions=True) for network in networks]
  pairs = list(itertools.combinations(range(len(networks)), 2))
  found: dict[tuple[str, str], list] = {
    (networks[i].name, networks[j].name): [[] for _ in range(depths[0])] for i, j in pairs
  }
  uniform: list[list[list]] = [[[] for _ in range(depths[0])] for _ in networks]
  size = config.eval.batch_size
  for number, batch in shown_batches(plan, samples, size):
    maps = [one(batch, number).attentions or () for one in run]
    for layer in range(depths[0]):
      for i, j in pairs:
        distances = head_distances(maps[i][layer], maps[j][layer], batch.mask)
        matched = matched_distance(np.asarray(distances))
        found[networks[i].name, networks[j].name][layer].extend(matched.tolist())
      for own, one in zip(uniform, maps, strict=True):
        own[layer].extend(
          np.asarray(distances_from_uniform(one[layer], batch.mask)).mean(1).tolist()
        )
  found |= {(network.name, _UNIFORM): own for network, own in zip(networks, uniform, strict=True)}
  return _found(found, depths[0])


def _found(found: dict[tuple[str, str], list], depth: int) -> Found:
  """Returns the table of the distances of each pair, layer by layer."""
  rows = [
    {
      "first": first,
      "second": second,
      "layer": layer + 1,
      "mean": float(np.mean(values)),
      "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
      "inputs": len(values),
    }
    for (first, second), layers in found.items()
    for layer, values in enumerate(layers)
  ]
  summary = [("layer", *(f"{a} - {b}" for a, b in found))]
  for layer in range(depth):
    cells = [f"{row['mean']:.3f} ± {row['std'] or 0:.3f}" for row in rows[layer::depth]]
    summary.append((str(layer + 1), *cells))
  return Found(rows, summary, [], functools.partial(_draw, rows=rows))


def _draw(figure: Figure, rows: list[dict]) -> None:
  axes = figure.add_subplot()
  for i, pair in enumerate(dict.fromkeys((row["first"], row["second"]) for row in rows)):
    own = [row for row in rows if (row["first"], row["second"]) == pair]
    axes.errorbar(
      [row["layer"] + 0.05 * i for row in own],
      [row["mean"] for row in own],
      yerr=[row["std"] or 0 for row in own],
      fmt="o:" if pair[1] == _UNIFORM else "o-",
      capsize=2,
      label=" - ".join(pair),
    )
  label_layers(axes)
  axes.set(ylabel="mean L1 distance of matched heads", ylim=(0, None))
  axes.legend(fontsize=7)
