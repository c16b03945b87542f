"""Asks what the layers of frozen networks know: a linear model on the mean hidden state of each sample.

If the answer is about positions, it reads the state of each.
"""

import dataclasses
import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.measures.found import Found, label_layers
from discipline_jax.measures.networks import Network, run_encoder, shown_batches
from discipline_jax.measures.position_probe import probe_positions
from discipline_jax.metrics import score
from discipline_jax.programs.baselines import Baseline, fit_baselines, fit_linear
from discipline_jax.programs.sequences import Sequences, whole_sequences
from discipline_jax.tasks.splits import Split
from discipline_jax.tasks.windows import first_rows, mean_over_windows

_BASELINES = {
  "constant": "one answer for all",
  "symbol": "one answer for each symbol",
  "linear": "counts of symbols",
}
_AROUND = "symbols around"  # `linear`, if the answer is about positions


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns the scores of a linear model on each layer of each network, and those of the baselines of a comparison.

  It reads the mean hidden state of a sample or, if the answer is about positions, the state of each. The first
  `analysis.samples` training samples are used, and all of validation and test.

  Args:
    config: see `modes.analyze`.
    networks: one or more.

  Raises:
    UserError: a training part with one class or tag only.
  """
  plan = networks[0].plan
  features, split, answer = plan.features, dict(plan.splits[0]), plan.task.answer
  split["train"] = features.of_first(split["train"], config.analysis.samples)
  rows: list[dict] = []

  def add(name: str, layer: int | None, setting: str, scores: dict[str, float]) -> None:
    rows.append({"network": name, "layer": layer, **scores, "setting": setting})

  cut = dataclasses.replace(plan, parts=dataclasses.replace(plan.parts, splits=[split]))
  data = whole_sequences(cut)
  for network in networks:
    found = (
      probe_positions(config, network, split)
      if answer.of_positions
      else _probe_samples(config, network, split, data)
    )
    for layer, one in enumerate(found):
      add(network.name, layer, *one)
  for name, (model,) in fit_baselines(cut).items():
    what = _AROUND if answer.of_positions and name == "linear" else _BASELINES[name]
    add(what, None, model.setting, _scores(answer.metric, model))
  summary = [("network", "layer", f"validation {answer.metric}", f"test {answer.metric}")]
  summary += [
    (
      one["network"],
      "" if one["layer"] is None else str(one["layer"]),
      f"{one['validation']:.1f}",
      f"{one['test']:.1f}",
    )
    for one in rows
  ]
  return Found(rows, summary, [], functools.partial(_draw, rows=rows, metric=answer.metric))


def _scores(metric: str, model: Baseline) -> dict[str, float]:
  return {
    part: score(metric, model.labels[part], model.predicted[part])
    for part in ("validation", "test")
  }


def _probe_samples(
  config: ConfigDict, network: Network, split: Split, data: Sequences
) -> Iterator[tuple[str, dict[str, float]]]:
  """Yields for each layer the setting of the best model on mean hidden states, and its scores."""
  from sklearn.preprocessing import StandardScaler  # a second, and only this measure needs it

  answer, (own,) = network.plan.task.answer, data.splits
  for values in _mean_states(config, network, split, len(data.groups)):
    scaled = StandardScaler().fit(values[own["train"]]).transform(values)
    model = fit_linear(answer, data, own, scaled)
    yield model.setting, _scores(answer.metric, model)


def _mean_states(
  config: ConfigDict, network: Network, split: Split, number: int
) -> Float[np.ndarray, "layers sequences hidden"]:
  """Returns the mean over tokens of the hidden states of the sequences of a split; of windows, the mean of theirs.

  Args:
    config: see `modes.analyze`.
    network: the network.
    split: samples, or windows.
    number: of all sequences; the states of the others are 0.
  """
  run = run_encoder(network, output_hidden_states=True)
  plan = network.plan
  used = np.unique(np.concatenate(list(split.values())))
  depth, size = len(network.config.layer_order) + 1, config.eval.batch_size
  means: np.ndarray = np.zeros((depth, len(used), network.config.hidden_size), np.float32)
  for i, batch in shown_batches(plan, used, size, network.name):
    mask = batch.mask[..., None]
    for layer, states in enumerate(run(batch, i).hidden_states or ()):
      total = np.where(mask, np.asarray(states, np.float32), 0).sum(1)
      means[layer, i * size : (i + 1) * size] = total / mask.sum(1)
  owners = plan.features.sequences(used)
  found: np.ndarray = np.zeros((depth, number, network.config.hidden_size), np.float32)
  for layer, own in enumerate(means):
    found[layer, owners[first_rows(owners)]] = mean_over_windows(own, owners)
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
