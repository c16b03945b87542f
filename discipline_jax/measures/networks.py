"""Finds the networks that an analysis compares, and the inputs that all of them read."""

import copy
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict
from jax.sharding import Mesh
from jaxtyping import Bool, Int, Integer
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.places import Path, place
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder, EncoderOutput
from discipline_jax.models.functional import encoder_function
from discipline_jax.models.initialise import INITS, initial_params, word_embeddings
from discipline_jax.predict import params_of
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.programs.model import resolve_model
from discipline_jax.runs.check_inputs import check_model
from discipline_jax.runs.saved import Saved, read_model
from discipline_jax.streams import DROPOUT
from discipline_jax.tasks.features import PAD
from discipline_jax.training.sharding import platform_of

DROPOUTS = ("off", "on", "authors")


@dataclasses.dataclass(frozen=True)
class Network:
  """A network that is compared.

  Attributes:
    name: the last part of what the config gives, after its init; with a number if several have the same.
    plan: the inputs of the network: the task's, with its own tokenizer.
    config: its sizes, with an embedding table of the rows that the task reaches.
    params: its parameters.
    lookup: the row of the table for each symbol.
    encoder: makes the encoder of its parameters.
    dropout_key: key of its dropout; None if it has none.
    scale: see `Plan.scales`; empty if its outputs are not standardised, as those of a finished fine-tuning.
  """

  name: str
  plan: Plan
  config: ModelConfig
  params: dict
  lookup: Int[np.ndarray, " symbols"]
  encoder: Callable[[dict], Encoder]
  dropout_key: jax.Array | None
  scale: dict[str, np.float32]

  def key(self, number: int) -> jax.Array | None:
    """Returns the key of dropout for the batch of this number; None without dropout."""
    return None if self.dropout_key is None else jax.random.fold_in(self.dropout_key, number)

  def inputs(self, batch: "Inputs") -> dict:
    """Returns the arguments of the encoder for some samples."""
    segments = None if batch.segments is None else jnp.asarray(batch.segments, jnp.int32)
    return {
      "ids": jnp.asarray(self.lookup[batch.symbols]),
      "attention_mask": jnp.asarray(batch.mask),
      "token_type_ids": segments,
    }


@dataclasses.dataclass(frozen=True)
class Inputs:
  """Some samples, padded to one length.

  Attributes:
    samples: their numbers.
    symbols: see `Features`; a network turns them into ids.
    segments: likewise, or None.
    mask: False for padding.
  """

  samples: Int[np.ndarray, " batch"]
  symbols: Integer[np.ndarray, "batch length"]
  segments: Integer[np.ndarray, "batch length"] | None
  mask: Bool[np.ndarray, "batch length"]


@dataclasses.dataclass(frozen=True)
class Planned:
  """A network of which no weight is read yet.

  Attributes:
    name, plan: see `Network`.
    init: value of `model.init`.
    saved: the finished fine-tuning that has the weights; None if they are those before training.
  """

  name: str
  plan: Plan
  init: str
  saved: Saved | None


def plan_networks(config: ConfigDict, *, download: bool) -> list[Planned]:
  """Finds the networks of `analysis.models`, or `model.checkpoint` and the same network from scratch.

  A name is `[INIT:]SOURCE`: a checkpoint as `model.checkpoint` takes it, with a value of `model.init` before it, or the
  workdir of a finished fine-tuning.

  Args:
    config: see `modes.analyze`.
    download: whether missing public files of the task are downloaded.

  Raises:
    UserError: a network that cannot be found, or networks that read different tokens.
  """
  names = config.analysis.models
  if not names:
    if config.model.checkpoint is None:
      raise UserError(
        "no networks to compare; set --config.analysis.models=\"('A','scratch:A')\", or --config.model.checkpoint"
      )
    names = (config.model.checkpoint, f"scratch:{config.model.checkpoint}")
  networks: list[Planned] = []
  for given, name in zip(names, _short(names), strict=True):
    init, source = _cut(given)
    workdir = place(source)
    if (workdir / "model" / "task.json").is_file():
      if source != given:
        raise UserError(
          f"analysis.models has {given!r}, but {source} is the workdir of a fine-tuning, whose weights are given; leave"
          f" {init}: out"
        )
      networks.append(_finetuned(config, name, workdir, download))
    else:
      plan = _plan(config, {"model.checkpoint": source, "model.init": init}, download)
      networks.append(Planned(name, plan, init, None))
    model_config = networks[-1].plan.model.config
    if not isinstance(model_config, ModelConfig):
      raise UserError(
        f"analysis.models has {name}, a {model_config.model_type}, which has no layers of attention; leave it out"
      )
  _check_alike(networks)
  return networks


def read_networks(config: ConfigDict, mesh: Mesh, planned: Sequence[Planned]) -> list[Network]:
  """Reads or draws the weights. Each network has random ones of its own, and all have the same random token map.

  Args:
    config: see `modes.analyze`.
    mesh: where they run.
    planned: what `plan_networks` returned.

  Raises:
    UserError: a network that cannot be read.
  """
  return [_read(config, mesh, one, number) for number, one in enumerate(planned)]


def _cut(given: str) -> tuple[str, str]:
  """Returns the init and the source that `[INIT:]SOURCE` names."""
  init, colon, source = given.partition(":")
  return (init, source) if colon and init in INITS else ("pretrained", given)


def _short(names: Sequence[str]) -> list[str]:
  """Returns a short name for each network, all different."""
  short: list[str] = []
  for given in names:
    init, source = _cut(given)
    last = pathlib.PurePath(source).name or source
    name = last if init == "pretrained" else f"{init} {last}"
    short.append(f"{name} {len(short) + 1}" if name in short else name)
  return short


def batches(plan: Plan, samples: Int[np.ndarray, " samples"], size: int) -> Iterator[Inputs]:
  """Yields samples in batches, in the given order, each padded to the compiled length of its longest sample."""
  features = plan.features
  for start in range(0, len(samples), size):
    own = samples[start : start + size]
    length = int(plan.lengths[own].max())
    symbols = features.symbols[own, :length]
    segments = None if features.segments is None else features.segments[own, :length]
    yield Inputs(own, symbols, segments, symbols != PAD)


def shown_batches(
  plan: Plan, samples: Int[np.ndarray, " samples"], size: int, name: str | None = None
) -> Iterator[tuple[int, Inputs]]:
  """Yields the numbers of batches with these, see `batches`, and shows how far they are in a progress bar.

  Args:
    plan, samples, size: see `batches`.
    name: of what is shown.
  """
  total, unit = -(-len(samples) // size), "batch" if size > 1 else "sample"
  bar = progress.bar(batches(plan, samples, size), total=total, unit=unit, desc=name, disable=None)
  yield from enumerate(bar)


def run_encoder(network: Network, **options: Any) -> Callable[[Inputs, int], EncoderOutput]:
  """Returns the compiled function of a batch and its number, which dropout depends on, to the encoder's outputs.

  Args:
    network: the network.
    options: of `Encoder.run_layers`: what else is returned.
  """

  @jax.jit
  def run(params: dict, inputs: dict, key: jax.Array | None) -> EncoderOutput:
    encoder, mask = network.encoder(params), inputs["attention_mask"]
    x = encoder.embed(**inputs, dropout_key=key)
    return encoder.run_layers(x, attention_mask=mask, dropout_key=key, **options)

  def of_batch(batch: Inputs, number: int) -> EncoderOutput:
    return run(network.params, network.inputs(batch), network.key(number))

  return of_batch


def chosen_samples(config: ConfigDict, plan: Plan) -> Int[np.ndarray, " samples"]:
  """Returns the first `analysis.samples` samples of `analysis.part`; raises UserError if there is no such part."""
  split, part = plan.splits[0], config.analysis.part
  if part not in split:
    raise UserError(f"analysis.part = {part!r} is not one of: {', '.join(split)}")
  return split[part][: config.analysis.samples]


def _plan(config: ConfigDict, fields: Mapping[str, Any], download: bool) -> Plan:
  """Returns the plan of a network: that of the analysis, with other fields, by dotted name."""
  own = copy.deepcopy(config)
  with own.ignore_type():
    own.update_from_flattened_dict({**fields, "replicas": 1})
  return make_plan(own, download=download)


def _finetuned(config: ConfigDict, name: str, workdir: Path, download: bool) -> Planned:
  saved = read_model(workdir)
  check_model(saved, workdir, weights=saved.task.alphabet is None)
  if saved.task.name != config.task.name:
    raise UserError(
      f"analysis.models has {name}, a fine-tuning on {saved.task.name}, but task.name is {config.task.name}; compare"
      " networks on their own task"
    )
  own = {name: saved.config[name].to_dict() for name in ("model", "token_map")}
  plan = _plan(config, flatten_dict(own, sep="."), download)
  if saved.task.alphabet != plan.task.alphabet:
    raise UserError(f"the run in {workdir} has other symbols than task.path; give its own table")
  return Planned(name, plan, saved.config.model.init, saved)


def _read(config: ConfigDict, mesh: Mesh, planned: Planned, number: int) -> Network:
  plan, saved, head = planned.plan, planned.saved, planned.plan.task.answer.head
  if saved is not None:
    model = resolve_model(saved.config, saved.task)
    params, lookup = params_of(saved, saved.best, model, plan.features.symbol_ids)
  else:
    lookup = plan.sub_tables[0].lookup
    params = initial_params(
      planned.init,
      plan.model.config,
      head,
      plan.model.checkpoint,
      config.seed + number,
      pretrained_layers=plan.config.model.pretrained_layers,
    )
    table = word_embeddings(params)
    table["weight"] = plan.sub_tables[0].cut(table["weight"])
  assert isinstance(plan.model.config, ModelConfig)
  sizes = dataclasses.replace(plan.model.config, vocab_size=len(word_embeddings(params)["weight"]))
  # The authors' pretrained text models come without dropout, the others keep it; see docs/analyses.md.
  dropped = {
    "off": False,
    "on": True,
    "authors": planned.init == "scratch" or plan.token_map == "identity",
  }[config.analysis.dropout]
  key = jax.random.fold_in(jax.random.fold_in(jax.random.key(config.seed), DROPOUT), number)
  encoder = encoder_function(sizes, head, plan.model.dtype, platform_of(mesh))
  return Network(
    planned.name,
    plan,
    sizes,
    jax.device_put(params),
    lookup,
    encoder,
    dropout_key=key if dropped else None,
    scale=plan.scales[0] if saved is None else {},
  )


def _check_alike(networks: Sequence[Planned]) -> None:
  """Raises UserError if a token of one network is not a token of the others."""
  first = networks[0]
  for other in networks[1:]:
    ours, theirs = first.plan.features, other.plan.features
    is_text = first.plan.task.alphabet is None
    if ours.symbols.shape != theirs.symbols.shape or not (
      np.array_equal(ours.symbols, theirs.symbols)
      and (not is_text or np.array_equal(ours.symbol_ids, theirs.symbol_ids))
    ):
      raise UserError(
        f"{first.name} and {other.name} cut the samples into other tokens, so that no token is of both;"
        " compare networks with the same tokenizer, or set --config.task.max_length to what all of them take"
      )
