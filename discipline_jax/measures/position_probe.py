"""Fits linear models to the hidden states of single positions, for answers about positions."""

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from ml_collections import ConfigDict

from discipline_jax.measures.networks import Network, run_encoder, shown_batches
from discipline_jax.metrics import is_scored, score
from discipline_jax.programs.linear_models import Outputs, linear_models
from discipline_jax.tasks.positions import PositionAnswer

_MOST = 10_000  # positions that a model learns from

# A model of each penalty: the name of its setting, and the function of hidden states to outputs.
Models = list[tuple[str, Outputs]]


def probe_positions(
  config: ConfigDict, network: Network, split: Mapping[str, Int[np.ndarray, " some"]]
) -> list[tuple[str, dict[str, float]]]:
  """Returns for each layer, from the embeddings on, the setting of the best model and its scores.

  At most 10,000 scored positions of the training samples are learnt from, drawn at random. The states of validation
  and test are not kept, because they may be more than memory holds.

  Args:
    config: see `modes.analyze`.
    network: the network.
    split: samples of each part or, if sequences are read in windows, windows.

  Raises:
    UserError: a training part with one tag only.
  """
  layers = _fit(config, network, split["train"])
  validation = _scores(config, network, split["validation"], layers)
  best = [int(np.argmax(own)) for own in validation]
  chosen = [[models[place]] for models, place in zip(layers, best, strict=True)]
  tests = _scores(config, network, split["test"], chosen)
  return [
    (models[place][0], {"validation": own[place], "test": test})
    for models, place, own, (test,) in zip(layers, best, validation, tests, strict=True)
  ]


def _fit(config: ConfigDict, network: Network, train: np.ndarray) -> list[Models]:
  """Returns the models of each layer."""
  from sklearn.preprocessing import StandardScaler  # a second, and only this measure needs it

  plan = network.plan
  labels = plan.features.targets["labels"][train]
  chosen = _some(is_scored(labels))
  batched = list(_states(config, network, train, chosen))
  layers: list[Models] = []
  for own in zip(*batched, strict=True):
    values = np.concatenate(own)
    scaler = StandardScaler().fit(values)
    models = linear_models(plan.task.answer, scaler.transform(values), labels[chosen])
    layers.append([(name, functools.partial(_of_scaled, scaler, one)) for name, one in models])
  return layers


def _of_scaled(scaler, outputs_of: Outputs, values: np.ndarray) -> np.ndarray:
  return outputs_of(scaler.transform(values))


def _scores(
  config: ConfigDict, network: Network, samples: np.ndarray, layers: Sequence[Models]
) -> list[list[float]]:
  """Returns the score of each model of each layer on some samples."""
  answer = network.plan.task.answer
  assert isinstance(answer, PositionAnswer)
  labels = network.plan.features.targets["labels"][samples]
  chosen = is_scored(labels)
  found: list[list[list[np.ndarray]]] = [[[] for _ in models] for models in layers]
  for states in _states(config, network, samples, chosen):
    for models, own, values in zip(layers, found, states, strict=True):
      for (_, outputs_of), parts in zip(models, own, strict=True):
        outputs = outputs_of(values)
        parts.append(outputs.argmax(-1) if answer.labels else outputs[:, 0])
  truth = labels[chosen]
  return [[score(answer.metric, truth, np.concatenate(parts)) for parts in own] for own in found]


def _some(scored: Bool[np.ndarray, "samples tokens"]) -> Bool[np.ndarray, "samples tokens"]:
  """Returns the positions that are learnt from."""
  places = np.flatnonzero(scored)
  if len(places) > _MOST:
    places = np.random.default_rng(0).choice(places, _MOST, replace=False)
  chosen: np.ndarray = np.zeros(scored.size, bool)
  chosen[places] = True
  return chosen.reshape(scored.shape)


def _states(
  config: ConfigDict,
  network: Network,
  samples: Int[np.ndarray, " samples"],
  chosen: Bool[np.ndarray, "samples tokens"],
) -> Iterator[list[Float[np.ndarray, "positions hidden"]]]:
  """Yields for each batch the hidden states of its chosen positions, an array for each layer."""
  run, size, start = run_encoder(network, output_hidden_states=True), config.eval.batch_size, 0
  for number, batch in shown_batches(network.plan, samples, size, network.name):
    own = chosen[start : start + len(batch.samples), : batch.symbols.shape[1]]
    start += len(batch.samples)
    if own.any():
      yield [
        np.asarray(states, np.float32)[own] for states in run(batch, number).hidden_states or ()
      ]
