"""Measures how evenly networks pass changes on, by the singular values of the Jacobian of an output token."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.analysis.isometry import (
  TokenFunction,
  jacobian,
  singular_values,
  singular_values_by_token,
)
from discipline_jax.measures.found import Found
from discipline_jax.measures.networks import Network, chosen_samples, shown_batches

_QUANTILES = (0, 25, 50, 75, 100)
_BINS = np.logspace(-8, 3, 111)


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns quantiles of the singular values for each network and sample, of the whole Jacobian and of its blocks.

  For each sample one of its tokens is drawn, the same for all networks.

  Args:
    config: see `modes.analyze`.
    networks: one or more.
  """
  plan = networks[0].plan
  samples = chosen_samples(config, plan)
  rng = np.random.default_rng(config.seed)
  tokens = [int(rng.integers(plan.features.lengths[sample])) for sample in samples]
  rows: list[dict] = []
  counts: dict[tuple[str, str], np.ndarray] = {}
  for network in networks:
    function = _function(network)
    for number, batch in shown_batches(plan, samples, 1):
      key, inputs = network.key(number), network.inputs(batch)
      embed = network.encoder(network.params).embed
      rest = {
        "params": network.params,
        "mask": inputs["attention_mask"],
        "token": jnp.array([[tokens[number]]]),
        "key": key,
      }
      found = jacobian(function, rest, embed(**inputs, dropout_key=key))
      own = found[:, batch.mask[0]]
      for kind, values in (
        ("whole", singular_values(own)),
        ("by token", singular_values_by_token(own).ravel()),
      ):
        rows.append(
          {
            "network": network.name,
            "sample": int(batch.samples[0]),
            "token": tokens[number],
            "kind": kind,
            "mean": float(values.mean()),
            **{f"q{q}": float(np.percentile(values, q)) for q in _QUANTILES},
          }
        )
        histogram, _ = np.histogram(values, _BINS)
        place = (network.name, kind)
        counts[place] = counts.get(place, 0) + histogram
  summary: list[tuple[str, ...]] = [("network", "Jacobian", "mean", "median", "largest")]
  for name, kind in counts:
    own_rows = [row for row in rows if (row["network"], row["kind"]) == (name, kind)]
    summary.append(
      (
        name,
        kind,
        *(f"{np.mean([row[c] for row in own_rows]):.4g}" for c in ("mean", "q50", "q100")),
      )
    )
  return Found(rows, summary, [], functools.partial(_draw, counts=counts))


def _function(network: Network) -> TokenFunction:
  def function(rest: dict, x: jax.Array) -> jax.Array:
    output = network.encoder(rest["params"]).run_layers(
      x, attention_mask=rest["mask"], dropout_key=rest["key"], positions=rest["token"]
    )
    states = output.last_hidden_state
    # A left-to-right model ignores `positions`; else the first position stands before them.
    if network.config.is_decoder:
      return jnp.take_along_axis(states, rest["token"][..., None], axis=1)
    return states[:, 1:]

  return function


def _draw(figure: Figure, counts: dict) -> None:
  for place, kind in enumerate(("whole", "by token"), 1):
    axes = figure.add_subplot(1, 2, place)
    for (name, own_kind), histogram in counts.items():
      if own_kind == kind:
        axes.stairs(histogram / max(1, histogram.sum()), _BINS, label=name)
    axes.set(xscale="log", xlabel="singular value", ylabel="share", title=f"Jacobian, {kind}")
    axes.legend(fontsize=7)
