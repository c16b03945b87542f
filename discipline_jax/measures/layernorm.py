"""Measures the spread of what enters the LayerNorms of networks, layer by layer."""

import functools
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.analysis.layernorm import Spread
from discipline_jax.measures.found import Found, label_layers
from discipline_jax.measures.networks import Network, batches, chosen_samples, run_encoder

_HALVES = ("attention", "feed-forward")


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns the standard deviation of the inputs of each LayerNorm, over all features of all tokens.

  Args:
    config: see `modes.analyze`.
    networks: one or more.
  """
  plan = networks[0].plan
  samples = chosen_samples(config, plan)
  rows: list[dict[str, Any]] = []
  for network in networks:
    run = run_encoder(network, output_norm_inputs=True)
    spread = Spread(2 * len(network.config.layer_order))
    for number, batch in enumerate(batches(plan, samples, config.eval.batch_size)):
      inputs = [one for pair in run(batch, number).norm_inputs or () for one in pair]
      spread.add([np.asarray(one, np.float32) for one in inputs], batch.mask)
    rows += [
      {"network": network.name, "layer": i // 2 + 1, "half": _HALVES[i % 2], "std": float(value)}
      for i, value in enumerate(spread.deviations)
    ]
  summary = [("layer", *(f"{one.name}, {half}" for one in networks for half in _HALVES))]
  for layer in sorted({row["layer"] for row in rows}):
    own = {(row["network"], row["half"]): row["std"] for row in rows if row["layer"] == layer}
    cells = [own.get((one.name, half)) for one in networks for half in _HALVES]
    summary.append((str(layer), *("-" if one is None else f"{one:.4g}" for one in cells)))
  return Found(rows, summary, [], functools.partial(_draw, rows=rows))


def _draw(figure: Figure, rows: list[dict]) -> None:
  axes = figure.add_subplot()
  for i, name in enumerate(dict.fromkeys(row["network"] for row in rows)):
    for half, style in zip(_HALVES, ("o-", "s:"), strict=True):
      own = [row for row in rows if (row["network"], row["half"]) == (name, half)]
      values = [row["std"] for row in own]
      axes.plot(
        [row["layer"] for row in own], values, style, color=f"C{i}", label=f"{name}, {half}"
      )
  label_layers(axes)
  axes.set(ylabel="standard deviation before LayerNorm", ylim=(0, None))
  axes.legend(fontsize=7)
