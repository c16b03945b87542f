"""Compares what networks represent: similarities of their hidden states, token by token, each beside its null."""

import functools
import itertools

import numpy as np
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax.analysis.moments import Moments
from discipline_jax.analysis.similarity import (
  ENOUGH,
  authors_pwcca,
  effective_rank,
  similarities,
)
from discipline_jax.errors import UserError
from discipline_jax.measures.found import Found, label_layers, text
from discipline_jax.measures.networks import Network, chosen_samples, run_encoder, shown_batches

LAYERS = ("last", "each", "pairs")
_AUTHORS_TOKENS = 1000
_SHOWN = ("pwcca", "cca", "svcca", "cka_debiased", "cka_standardised", "procrustes")


def measure(config: ConfigDict, networks: list[Network]) -> Found:
  """Returns the similarities of all pairs of networks.

  Args:
    config: see `modes.analyze`.
    networks: two or more.

  Raises:
    UserError: one network, or networks of unequal numbers of layers if each layer is compared with its own.
  """
  if len(networks) < 2:
    raise UserError("a similarity is of two networks; name more in --config.analysis.models")
  places = _places(config.analysis.layers, networks)
  pairs = [
    (i, j)
    for i, j in itertools.combinations(range(len(places)), 2)
    if places[i][0] != places[j][0]
    and (config.analysis.layers != "each" or places[i][1] == places[j][1])
  ]
  states = _States(config, networks, places)
  scales = None
  if config.analysis.standardise:
    first = Moments(states.features, [], seed=config.seed)
    states.add_to(first)
    scales = [np.where(one.deviations > 0, one.deviations, 1) for one in first.own]
  moments = Moments(states.features, pairs, seed=config.seed, scales=scales)
  states.add_to(moments)
  tokens = moments.own[0].count
  rows = []
  for i, j in pairs:
    sums = (moments.own[i], moments.own[j])
    found, null = (similarities(*sums, one[i, j]) for one in (moments.cross, moments.null))
    found["authors_pwcca"], null["authors_pwcca"] = states.authors(i, j)
    rows += [
      {
        "first": networks[places[i][0]].name,
        "second": networks[places[j][0]].name,
        "first_layer": places[i][1],
        "second_layer": places[j][1],
        "measure": name,
        "value": value,
        "null": null[name],
        "tokens": min(tokens, _AUTHORS_TOKENS) if name == "authors_pwcca" else tokens,
      }
      for name, value in found.items()
    ]
  notes = [
    f"effective rank of {networks[number].name}, layer {layer}: {text(effective_rank(own))} of {len(own.total)}"
    for (number, layer), own in zip(places, moments.own, strict=True)
  ]
  widest = max(states.features)
  if tokens < ENOUGH * widest:
    notes.append(
      f"{tokens} tokens are few for {widest} features: unrelated representations are similar, too (see the null); give"
      f" at least {ENOUGH * widest} tokens, more with --config.analysis.samples"
    )
  return Found(rows, _summary(rows), notes, functools.partial(_draw, rows=rows))


def _places(layers: str, networks: list[Network]) -> list[tuple[int, int]]:
  """Returns the number of the network and of the layer of each representation; layer 0 is the embeddings."""
  depths = [len(network.config.layer_order) for network in networks]
  if layers == "last":
    return list(enumerate(depths))
  if layers == "each" and len({*depths}) > 1:
    raise UserError(
      f"the networks have {', '.join(map(str, depths))} layers, so that no layer has its own; set"
      " --config.analysis.layers=last or pairs"
    )
  return [(i, layer) for i, depth in enumerate(depths) for layer in range(depth + 1)]


class _States:
  """The hidden states of the networks, computed batch by batch."""

  def __init__(self, config: ConfigDict, networks: list[Network], places: list[tuple[int, int]]):
    self._config, self._networks, self._places = config, networks, places
    self._run = [run_encoder(one, output_hidden_states=True) for one in networks]
    self.features = [networks[number].config.hidden_size for number, _ in places]
    self._first: list[list[np.ndarray]] = [[] for _ in places]

  def add_to(self, moments: Moments) -> None:
    """Adds all tokens, or the first `analysis.tokens`; keeps the first thousand for the authors' form."""
    plan, most = self._networks[0].plan, self._config.analysis.tokens
    samples = chosen_samples(self._config, plan)
    self._first, count = [[] for _ in self._places], 0
    size = self._config.eval.batch_size
    for number, batch in shown_batches(plan, samples, size):
      states = [run(batch, number).hidden_states or () for run in self._run]
      rows = [np.asarray(states[i][layer], np.float32)[batch.mask] for i, layer in self._places]
      if most is not None:
        rows = [one[: most - count] for one in rows]
      count += len(rows[0])
      try:
        moments.add(rows)
      except ValueError as error:
        raise UserError(
          f"{error}: sample {batch.samples[0]} and the next ones; set --config.model.dtype=float32, or leave out the"
          " network that overflows"
        ) from None
      for kept, one in zip(self._first, rows, strict=True):
        if sum(map(len, kept)) < _AUTHORS_TOKENS:
          kept.append(one)
      if most is not None and count >= most:
        break
    moments.finish()

  def authors(self, i: int, j: int) -> tuple[float, float]:
    """Returns PWCCA in the authors' form, and the same with the second one's tokens in random order."""
    x, y = (np.concatenate(self._first[k])[:_AUTHORS_TOKENS] for k in (i, j))
    order = np.random.default_rng(self._config.seed).permutation(len(y))
    ridge = self._config.analysis.ridge
    return authors_pwcca(x, y, ridge), authors_pwcca(x, y[order], ridge)


def _summary(rows: list[dict]) -> list[tuple[str, ...]]:
  """Returns a line for each pair of networks at their last layers that were compared."""
  last: dict[tuple[str, str], dict[str, str]] = {}
  depth: dict[tuple[str, str], tuple[int, int]] = {}
  for row in rows:
    pair, layers = (row["first"], row["second"]), (row["first_layer"], row["second_layer"])
    if layers >= depth.get(pair, (0, 0)):
      depth[pair] = layers
      last.setdefault(pair, {})[row["measure"]] = f"{text(row['value'])} ({text(row['null'])})"
  shown = (*_SHOWN, "authors_pwcca")
  return [
    ("last layer (null)", *shown),
    *((f"{a} - {b}", *(values[name] for name in shown)) for (a, b), values in last.items()),
  ]


def _draw(figure: Figure, rows: list[dict]) -> None:
  """Draws, for each pair of networks, debiased CKA by layer, or all measures of one layer as bars beside their null."""
  pairs = list(dict.fromkeys((row["first"], row["second"]) for row in rows))
  layers = {(row["first_layer"], row["second_layer"]) for row in rows}
  figure.set_size_inches(4.6 * len(pairs), 3.6)
  for place, pair in enumerate(pairs, 1):
    axes = figure.add_subplot(1, len(pairs), place)
    own = [row for row in rows if (row["first"], row["second"]) == pair]
    if len(layers) == 1 or all(a == b for a, b in layers):
      _draw_lines(axes, own)
    else:
      _draw_grid(figure, axes, own, pair)
    axes.set_title(" - ".join(pair), fontsize=9)


def _draw_lines(axes, rows: list[dict]) -> None:
  names = ("pwcca", "cka_debiased", "procrustes")
  if len({row["first_layer"] for row in rows}) == 1:
    names = tuple(dict.fromkeys(row["measure"] for row in rows))
    own = {row["measure"]: row for row in rows}
    places = np.arange(len(names))
    axes.barh(places - 0.2, [own[name]["value"] or 0 for name in names], 0.4, label="value")
    axes.barh(places + 0.2, [own[name]["null"] or 0 for name in names], 0.4, label="null")
    axes.set_yticks(places, names, fontsize=8)
    axes.invert_yaxis()
  else:
    for i, name in enumerate(names):
      own_rows = [row for row in rows if row["measure"] == name]
      layers = [row["first_layer"] for row in own_rows]
      axes.plot(layers, [row["value"] for row in own_rows], f"C{i}o-", label=name)
      axes.plot(layers, [row["null"] for row in own_rows], f"C{i}:", label=f"{name}, null")
    label_layers(axes)
    axes.set(ylim=(-0.05, 1.05))
  axes.legend(fontsize=7)


def _draw_grid(figure: Figure, axes, rows: list[dict], pair: tuple[str, str]) -> None:
  own = [row for row in rows if row["measure"] == "cka_debiased"]
  values = np.full(
    [1 + max(row[f"{side}_layer"] for row in own) for side in ("first", "second")], np.nan
  )
  for row in own:
    values[row["first_layer"], row["second_layer"]] = (
      row["value"] if row["value"] is not None else np.nan
    )
  image = axes.imshow(values, vmin=0, vmax=1, origin="lower", cmap="viridis")
  figure.colorbar(image, ax=axes, label="debiased CKA")
  axes.set(xlabel=f"layer of {pair[1]}", ylabel=f"layer of {pair[0]}")
