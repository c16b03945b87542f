"""Measures how far the outputs of networks move if noise is added to all of their weights."""

import functools

import jax
import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.analysis.perturbation import distances
from discipline_jax.errors import UserError
from discipline_jax.measures.found import Found
from discipline_jax.measures.networks import Network, batches, chosen_samples

_ROUNDED = 0.05  # share of the weights that noise may leave as they were


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns the L2 distance of the first token's last hidden state with and without noise, by scale and network.

  All networks have the same noise where their weights have the same shapes.

  Args:
    config: see `modes.analyze`.
    networks: one or more.

  Raises:
    UserError: dropout is on: two passes with different dropout differ by more than by the noise.
  """
  if config.analysis.dropout != "off":
    raise UserError(
      f"analysis.dropout = {config.analysis.dropout}: two passes with different dropout differ by more than the noise;"
      " set --config.analysis.dropout=off"
    )
  plan, analysis = networks[0].plan, config.analysis
  samples = chosen_samples(config, plan)
  rows, notes = [], []
  for network in networks:
    outputs = _outputs(network, samples, config.eval.batch_size)
    moved, swallowed = distances(
      outputs,
      network.params,
      scales=tuple(analysis.scales),
      repeats=analysis.repeats,
      seed=config.seed,
    )
    for scale, own, share in zip(analysis.scales, moved, swallowed, strict=True):
      of_inputs = own.mean(0)
      rows.append(
        {
          "network": network.name,
          "scale": float(scale),
          "mean": float(of_inputs.mean()),
          "std": float(of_inputs.std(ddof=1)) if len(of_inputs) > 1 else None,
          "inputs": len(of_inputs),
          "repeats": analysis.repeats,
          "rounded_away": float(share),
        }
      )
  for scale in analysis.scales:
    share = max(row["rounded_away"] for row in rows if row["scale"] == scale)
    if share > _ROUNDED:
      notes.append(
        f"noise of {scale:g} leaves up to {100 * share:.0f}% of the weights as they were, because float32 rounds it"
        " away: the distances there say as much about rounding"
      )
  summary = [("noise", *(network.name for network in networks))]
  for scale in analysis.scales:
    own = [f"{row['mean']:.4g}" for row in rows if row["scale"] == scale]
    summary.append((f"{scale:g}", *own))
  return Found(rows, summary, notes, functools.partial(_draw, rows=rows))


def _outputs(network: Network, samples: np.ndarray, size: int):
  """Returns the function from parameters to the first token's last hidden state of all samples."""

  @jax.jit
  def first(params: dict, inputs: dict) -> jax.Array:
    return network.encoder(params)(**inputs, first_only=True).last_hidden_state[:, 0]

  def outputs(params: dict) -> np.ndarray:
    parts = [first(params, network.inputs(one)) for one in batches(network.plan, samples, size)]
    return np.concatenate([np.asarray(part, np.float32) for part in parts])

  return outputs


def _draw(figure: Figure, rows: list[dict]) -> None:
  axes = figure.add_subplot()
  for name in dict.fromkeys(row["network"] for row in rows):
    own = sorted((row for row in rows if row["network"] == name), key=lambda row: row["scale"])
    axes.plot([row["scale"] for row in own], [row["mean"] for row in own], "o-", label=name)
  axes.set(
    xscale="log", yscale="log", xlabel="standard deviation of the noise", ylabel="L2 distance"
  )
  axes.legend(fontsize=7)
