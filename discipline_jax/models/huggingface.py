"""Loads a checkpoint in Hugging Face's format, from a directory or the hub, into a model of this package."""

import pathlib
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import nnx
from flax.traverse_util import flatten_dict, unflatten_dict
from jax.typing import DTypeLike

from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig, read_config, read_fields
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.heads import Head, encoder_of
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.locate import resolve
from discipline_jax.models.names import checkpoint_name
from discipline_jax.models.weights import Weights, open_weights, read_tensor

_READERS = 4
# How the names of an encoder's weights begin, without the family's prefix (`bert.`). All other weights are of heads.
_OF_ENCODER = r"(?i:embeddings|prefix|final|layer_?norm|encoder)"
# How the names of tensors end that are not weights: constants, and the state of the Adam optimizer.
_BUFFERS = ("position_ids", "token_type_ids", "adam_m", "adam_v")


def load(
  checkpoint: str,
  head: Head | None = None,
  *,
  revision: str | None = None,
  dtype: DTypeLike = jnp.float32,
  seed: int = 0,
) -> nnx.Module:
  """Loads a model of one of the families that `models.families` lists.

  Args:
    checkpoint: a directory in Hugging Face's format; the workdir of a pre-training, as `WORKDIR` or `WORKDIR@STEP`; or
      the id of a model on the hub.
    head: None for the bare encoder, or the head to put on it.
    revision: branch, tag or commit of a model on the hub; None means its main branch.
    dtype: dtype of the arithmetic; weights are float32.
    seed: seed of the weights that the checkpoint lacks (pooler, head). They are random, and a warning names them.

  Raises:
    UserError: no such checkpoint, another architecture, a missing encoder weight, a wrong shape, or a
      broken file. The message names the file and the tensor.
  """
  directory = resolve(checkpoint, revision=revision)
  config = read_config(directory)

  def build(key: jax.Array) -> nnx.Module:
    rngs = key_stream(key)
    return (
      Encoder(config, rngs=rngs, dtype=dtype)
      if head is None
      else head.build(config, rngs=rngs, dtype=dtype)
    )

  graph, abstract = nnx.split(nnx.eval_shape(build, jax.random.key(seed)))
  draw = jax.jit(lambda key: nnx.to_pure_dict(nnx.state(build(key))))
  shapes = nnx.to_pure_dict(abstract)
  params = load_params(directory, config, shapes, draw, jax.random.key(seed))
  nnx.replace_by_pure_dict(abstract, params)
  model = nnx.merge(graph, abstract)
  encoder_of(model).source = directory
  return model


def load_params(
  directory: pathlib.Path,
  config: ModelConfig,
  shapes: dict,
  draw: Callable[[jax.Array], dict],
  key: jax.Array,
  fresh: tuple[str, ...] = (),
) -> dict:
  """Returns a model's weights from a checkpoint; weights that the checkpoint lacks are random.

  The checkpoint may lack the weights of a head or a pooler, and its head may have another size. A warning names the
  weights that are random for this reason.

  Args:
    directory: a checkpoint in Hugging Face's format.
    config: config of the checkpoint.
    shapes: shapes of all weights, as a nested dict, as `nnx.to_pure_dict` returns it.
    draw: jitted function that takes a key and returns random weights, nested like `shapes`. Only the weights that are
      needed are computed.
    key: key for `draw`.
    fresh: prefixes of weights that are random even if the checkpoint has them.

  Raises:
    UserError: a weight of the encoder is missing, or a weight has the wrong shape or dtype or is not finite, or all
      word embeddings are 0.
  """
  weights, leaves = open_weights(directory), flatten_dict(shapes)
  sources, missing = _find_sources(weights, list(leaves), config, fresh, directory)
  found = {}
  with ThreadPoolExecutor(_READERS) as pool:  # most of the time goes into reading
    values = pool.map(lambda source: read_tensor(weights, source, directory), sources.values())
    pairs = zip(sources.items(), values, strict=True)
  for (path, source), value in pairs:
    if value.shape != leaves[path].shape and _is_head(path, leaves):  # another task's head
      missing.append((path, ".".join(map(str, path))))
      continue
    _check(value, leaves[path].shape, source, directory)
    found[path] = jax.device_put(value.astype(np.float32, copy=False))
  if missing:
    unexpected = [name for _, name in missing if not name.startswith(fresh)]
    if unexpected:
      logging.warning(
        "the checkpoint does not have these weights, so they begin at random: %s",
        ", ".join(unexpected),
      )
    drawn = jax.jit(lambda key: [flatten_dict(draw(key))[path] for path, _ in missing])(key)
    found.update(zip((path for path, _ in missing), drawn, strict=True))
  return unflatten_dict(found)


def _find_sources(
  weights: Weights,
  paths: list[tuple],
  config: ModelConfig,
  fresh: tuple[str, ...],
  directory: pathlib.Path,
) -> tuple[dict[tuple, str], list[tuple[tuple, str]]]:
  """Returns the weights' names in the checkpoint by path, and the path and name of each weight that is random.

  Raises:
    UserError: a weight of the encoder is missing.
  """
  sources, missing, lost = {}, [], []
  for path in paths:
    name = _plain(path)
    source = next((alias for alias in _aliases(name, config) if alias in weights), None)
    if source is None or name.startswith(fresh):
      missing.append((path, name))
      # A head or a pooler may be random; all other weights must be in the checkpoint.
      if not (_is_head(path, paths) or name.startswith(("pooler.", *fresh))):
        lost.append(name)
    else:
      sources[path] = source
  if lost:
    raise UserError(_why_lost(lost, weights, config, directory))
  _check_rest(weights, paths, config, directory)
  return sources, missing


def _why_lost(
  lost: list[str], weights: Weights, config: ModelConfig, directory: pathlib.Path
) -> str:
  """Returns the message for a checkpoint that lacks the weights `lost` of the encoder."""
  what = f"{lost[0]} is missing (the encoder lacks {len(lost)} weights in all)"
  if "auto_map" in read_fields(directory):
    return (
      f"the model needs its own code (auto_map in config.json), so it is not a plain {config.model_type}: {what},"
      f" {directory}; give a checkpoint that transformers opens without"
      " trust_remote_code"
    )
  if any("lora_" in name for name in weights):
    return (
      f"the checkpoint has an adapter of the library PEFT: {what}, {directory}; save the model that PEFT's"
      " merge_and_unload() returns, and give that"
    )
  example = next(iter(weights), "none")
  return (
    f"{what}, {directory}, whose first weight is {example}; give a checkpoint with all weights of a"
    f" {config.model_type} encoder"
  )


def _check_rest(
  weights: Weights, paths: list[tuple], config: ModelConfig, directory: pathlib.Path
) -> None:
  """Checks the checkpoint's weights that the network does not have.

  Constants, heads, and layers after the last one of the config are left out; a warning says how many layers.

  Raises:
    UserError: the checkpoint's encoder has more weights than these, so it computes something else than the network.
  """
  if "auto_map" in read_fields(directory):
    logging.warning(
      "%s: the checkpoint's own code (auto_map in config.json) is not run; its weights are read as those of a plain %s",
      directory,
      config.model_type,
    )
  own = {alias for path in paths for alias in _aliases(_plain(path), config)}
  others = [name for name in weights if name not in own and not name.endswith(_BUFFERS)]
  prefix = f"{config.model_type}."
  # If the encoder's names have the family's prefix, all names without it belong to heads.
  inside = [name.removeprefix(prefix) for name in others if name.startswith(prefix)]
  if not any(name.startswith(prefix) for name in weights):
    of_encoder = re.compile(rf"{_OF_ENCODER}|{re.escape(checkpoint_name('encoder.', config))}")
    inside = [name for name in others if of_encoder.match(name)]
  rest = [name for name in inside if not name.startswith("pooler.")]
  layer = re.compile(re.escape(checkpoint_name("encoder.layer.", config)) + r"(\d+)\.")
  layers = {name: int(match[1]) for name in rest if (match := layer.match(name))}
  surplus = {number for number in layers.values() if number >= config.num_hidden_layers}
  if surplus:
    logging.warning(
      "%s has %d layers more than its config.json says (num_hidden_layers = %d); they are not used",
      directory,
      len(surplus),
      config.num_hidden_layers,
    )
  others = [name for name in rest if layers.get(name) not in surplus]
  if others:
    raise UserError(
      f"the checkpoint is not a plain {config.model_type}: it has {others[0]} ({len(others)} such weights),"
      f" {directory}; give a checkpoint without them, or if they are an adapter of the library PEFT, save the model"
      " that its merge_and_unload() returns"
    )


def _plain(path: tuple) -> str:
  """Returns a path as a name with dots, without the `base_model` that holds the encoder of a model with a head."""
  return ".".join(str(part) for part in path).removeprefix("base_model.")


def _is_head(path: tuple, paths: Iterable[tuple]) -> bool:
  """Returns whether a weight belongs to a head: the model has a `base_model`, and the weight is outside it."""
  return path[0] != "base_model" and any(other[0] == "base_model" for other in paths)


def _check(value: np.ndarray, shape: tuple[int, ...], source: str, directory: pathlib.Path) -> None:
  """Raises UserError if a weight, which is named `source` in the checkpoint, cannot be used."""
  if value.shape != shape:
    raise UserError(
      f"{source} has shape {list(value.shape)}, but its config.json asks for {list(shape)},"
      f" {directory}; use the config.json made with these weights"
    )
  if not np.issubdtype(value.dtype, np.floating) and value.dtype != jnp.bfloat16:
    raise UserError(
      f"{source} has dtype {value.dtype}, which is not floating-point, {directory}; give weights in float32, float16"
      " or bfloat16"
    )
  if not _is_finite(value):
    raise UserError(
      f"{source} holds values that are not finite, {directory}; download the checkpoint again"
    )
  if source.endswith("word_embeddings.weight") and not value.any():
    raise UserError(f"all values of {source} are 0, {directory}; download the checkpoint again")


def _is_finite(value: np.ndarray) -> bool:
  """Returns whether all numbers are finite; if the sum of their squares is, which is fast to compute, they all are."""
  with np.errstate(over="ignore", invalid="ignore"):
    return bool(np.isfinite(np.vdot(value, value)) or np.isfinite(value).all())


def _aliases(name: str, config: ModelConfig) -> list[str]:
  """Returns the names that a weight may have in a checkpoint.

  It may stand there with or without the family's prefix, and with today's names for LayerNorm (`weight`, `bias`) or
  TensorFlow's (`gamma`, `beta`).
  """
  name = checkpoint_name(name, config)
  old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
    "LayerNorm.bias", "LayerNorm.beta"
  )
  prefix = f"{config.model_type}."
  return [name, prefix + name, old, prefix + old]
