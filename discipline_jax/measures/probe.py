"""Asks what the layers of frozen networks know: a linear model on the mean hidden state of each sample."""

import dataclasses
import functools

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.measures.found import Found, label_layers
from discipline_jax.measures.networks import Network, run_encoder, shown_batches
from discipline_jax.metrics import score
from discipline_jax.programs.baselines import Baseline, check_kind, fit_baselines, fit_linear

_BASELINES = {"constant": "one answer for all", "linear": "counts of symbols"}


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns the scores of a linear model on each layer of each network, and on counts of one to four symbols in a row.

  The first `analysis.samples` training samples are used, and all of validation and test.

  Args:
    config: see `modes.analyze`.
    networks: one or more.
  """
  from sklearn.preprocessing import StandardScaler  # a second, and only this measure needs it

  plan = networks[0].plan
  check_kind(plan.task)
  split = dict(plan.splits[0]) | {"train": plan.splits[0]["train"][: config.analysis.samples]}
  metric, rows = plan.task.answer.metric, []

  def row(name: str, layer: int | None, model: Baseline) -> dict:
    scores = {
      part: score(metric, model.labels[part], model.predicted[part])
      for part in ("validation", "test")
    }
    return {"network": name, "layer": layer, **scores, "setting": model.setting}

  for network in networks:
    states = _mean_states(config, network, split)
    for layer, values in enumerate(states):
      scaled = StandardScaler().fit(values[split["train"]]).transform(values)
      rows.append(row(network.name, layer, fit_linear(plan, split, scaled)))
  cut = dataclasses.replace(plan, parts=dataclasses.replace(plan.parts, splits=[split]))
  for name, (model,) in fit_baselines(cut).items():
    rows.append(row(_BASELINES[name], None, model))
  summary = [("network", "layer", f"validation {metric}", f"test {metric}")]
  summary += [
    (
      one["network"],
      "" if one["layer"] is None else str(one["layer"]),
      f"{one['validation']:.1f}",
      f"{one['test']:.1f}",
    )
    for one in rows
  ]
  return Found(rows, summary, [], functools.partial(_draw, rows=rows, metric=metric))


def _mean_states(config: ConfigDict, network: Network, split: dict) -> np.ndarray:
  """Returns the mean over tokens of the hidden states [layers + 1, samples, hidden] of the samples of a split."""
  run = run_encoder(network, output_hidden_states=True)
  plan = network.plan
  used = np.unique(np.concatenate(list(split.values())))
  depth, size = len(network.config.layer_order) + 1, config.eval.batch_size
  found: np.ndarray = np.zeros(
    (depth, len(plan.features.lengths), network.config.hidden_size), np.float32
  )
  for number, batch in shown_batches(plan, used, size, network.name):
    mask = batch.mask[..., None]
    for layer, states in enumerate(run(batch, number).hidden_states or ()):
      total = np.where(mask, np.asarray(states, np.float32), 0).sum(1)
      found[layer, batch.samples] = total / mask.sum(1)
  return found


def _draw(figure: Figure, rows: list[dict], metric: str) -> None:
  axes = figure.add_subplot()
  for i, name in enumerate(dict.fromkeys(row["network"] for row in rows)):
    own = [row for row in rows if row["network"] == name]
    if own[0]["layer"] is None:
      axes.axhline(own[0]["test"], color=f"C{i}", linestyle=":", label=name)
    else:
      axes.plot(
        [row["layer"] for row in own], [row["test"] for row in own], "o-", color=f"C{i}", label=name
      )
  label_layers(axes)
  axes.set(ylabel=f"test {metric} of a linear model")
  axes.legend(fontsize=7)
