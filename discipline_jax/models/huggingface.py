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
# What belongs to an encoder, by its name in a file without the family's prefix; the rest are heads.
_OF_ENCODER = re.compile(r"(embeddings|encoder|prefix|final|layer_?norm)", re.IGNORECASE)
# Ends of names of tensors that are no weights: positions, and the slots of an optimizer.
_BUFFERS = ("position_ids", "token_type_ids", "adam_m", "adam_v")


def load(
  checkpoint: str,
  head: Head | None = None,
  *,
  revision: str | None = None,
  dtype: DTypeLike = jnp.float32,
  seed: int = 0,
) -> nnx.Module:
  """Loads a model of the family BERT, RoBERTa, ALBERT or PLUS-TFM.

  Args:
    checkpoint: a directory in Hugging Face's format, `WORKDIR` or `WORKDIR@STEP` of a pre-training, or an id of a
      model on the hub.
    head: None for the bare encoder, or the head to put on it.
    revision: branch, tag or commit of a model on the hub; None means its main branch.
    dtype: dtype of the arithmetic; weights are float32.
    seed: of the weights that the checkpoint lacks (pooler, head), which are sampled; a warning names them.

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

  Only the weights of a head or a pooler may be missing, or belong to a head of another size. A warning names the random
  weights.

  Args:
    directory: a checkpoint in Hugging Face's format.
    config: config of the checkpoint.
    shapes: shapes of all weights, as a nested dict like that of `nnx.to_pure_dict`.
    draw: function from a key to a dict like `shapes` of random weights; jitted, so that it is traced once. Only the
      weights that are used are computed.
    key: key for `draw`.
    fresh: prefixes of weights that are random even if the checkpoint has them.

  Raises:
    UserError: a weight of the encoder is missing, or a weight has the wrong shape or dtype or is not finite, or all
      word embeddings are 0.
  """
  weights, leaves = open_weights(directory), flatten_dict(shapes)
  sources, missing = _find_sources(weights, list(leaves), config, fresh, directory)
  found = {}
  with ThreadPoolExecutor(_READERS) as pool:  # reading the file takes longer than the rest
    values = pool.map(lambda source: read_tensor(weights, source, directory), sources.values())
    pairs = zip(sources.items(), values, strict=True)
  for (path, source), value in pairs:
    if value.shape != leaves[path].shape and _is_head(path, leaves):  # a head for another task
      missing.append((path, ".".join(map(str, path))))
      continue
    _check(value, leaves[path].shape, source, directory)
    found[path] = jax.device_put(value.astype(np.float32, copy=False))
  if missing:
    logging.warning(
      "Random, because they are not taken from the checkpoint: %s",
      ", ".join(name for _, name in missing),
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
  """Returns the name of each weight in the checkpoint, and the paths and names of the weights that are random.

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
  what = f"{lost[0]} is missing ({len(lost)} weights of the encoder are)"
  if "auto_map" in read_fields(directory):
    return (
      f"the model has code of its own (auto_map in config.json) and is no plain {config.model_type}: {what},"
      f" {directory}; give a checkpoint without code of its own"
    )
  if any("lora_" in name for name in weights):
    return (
      f"the weights have an adapter of PEFT beside them: {what}, {directory}; save the model that merge_and_unload()"
      " returns"
    )
  example = next(iter(weights), "none")
  return (
    f"{what}, {directory}, whose first weight is {example}; give a checkpoint of a whole {config.model_type}"
    " encoder"
  )


def _check_rest(
  weights: Weights, paths: list[tuple], config: ModelConfig, directory: pathlib.Path
) -> None:
  """Looks at the weights that the network does not have.

  Buffers, heads, and layers after the last one of the config are left out; a warning names the layers.

  Raises:
    UserError: the encoder of the checkpoint has other weights, so that it computes something else.
  """
  if "auto_map" in read_fields(directory):
    logging.warning(
      "%s: the code of the model's own (auto_map in config.json) is not run; its weights are those of a plain %s",
      directory,
      config.model_type,
    )
  own = {alias for path in paths for alias in _aliases(_plain(path), config)}
  others = [name for name in weights if name not in own and not name.endswith(_BUFFERS)]
  prefix = f"{config.model_type}."
  # In a model with a head, the names of the encoder have its family before them, and all others are of heads.
  inside = [name.removeprefix(prefix) for name in others if name.startswith(prefix)]
  if not any(name.startswith(prefix) for name in weights):
    inside = [name for name in others if _OF_ENCODER.match(name)]
  rest = [name for name in inside if not name.startswith("pooler.")]
  layers = {int(match[1]) for name in rest if (match := re.match(r"encoder\.layer\.(\d+)\.", name))}
  surplus = {layer for layer in layers if layer >= config.num_hidden_layers}
  if surplus:
    logging.warning(
      "%s has %d layers more than the num_hidden_layers = %d of its config.json; they are not used",
      directory,
      len(surplus),
      config.num_hidden_layers,
    )
  prefixes = tuple(f"encoder.layer.{layer}." for layer in surplus)
  others = [name for name in rest if not (prefixes and name.startswith(prefixes))]
  if others:
    raise UserError(
      f"the checkpoint is no plain {config.model_type}: it has {others[0]} ({len(others)} such weights), {directory};"
      " give a checkpoint without them, or of an adapter of PEFT, save the model that merge_and_unload() returns"
    )


def _plain(path: tuple) -> str:
  """Returns the name of a parameter of this package without that of the encoder."""
  return ".".join(str(part) for part in path).removeprefix("base_model.")


def _is_head(path: tuple, paths: Iterable[tuple]) -> bool:
  """Returns whether a weight is of the head: outside `base_model` in a model that has one."""
  return path[0] != "base_model" and any(other[0] == "base_model" for other in paths)


def _check(value: np.ndarray, shape: tuple[int, ...], source: str, directory: pathlib.Path) -> None:
  """Raises UserError if a weight of the checkpoint, which it calls `source`, cannot be used."""
  if value.shape != shape:
    raise UserError(
      f"{source} has shape {list(value.shape)}, the config asks for {list(shape)},"
      f" {directory}; use the config.json made with these weights"
    )
  if not np.issubdtype(value.dtype, np.floating) and value.dtype != jnp.bfloat16:
    raise UserError(
      f"{source} has dtype {value.dtype}, not a floating one, {directory}; give weights in float32, float16 or bfloat16"
    )
  if not _is_finite(value):
    raise UserError(
      f"{source} holds values that are not finite, {directory}; download the checkpoint again"
    )
  if source.endswith("word_embeddings.weight") and not value.any():
    raise UserError(f"all values of {source} are 0, {directory}; download the checkpoint again")


def _is_finite(value: np.ndarray) -> bool:
  """Returns whether all numbers are finite. It first looks at the sum of their squares, which is fast to compute."""
  with np.errstate(over="ignore", invalid="ignore"):
    return bool(np.isfinite(np.vdot(value, value)) or np.isfinite(value).all())


def _aliases(name: str, config: ModelConfig) -> list[str]:
  """Returns the names that a weight may have in a checkpoint.

  They are with and without the family's prefix, and with TensorFlow's names for LayerNorm (`gamma`, `beta`).
  """
  name = checkpoint_name(name, config)
  old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
    "LayerNorm.bias", "LayerNorm.beta"
  )
  prefix = f"{config.model_type}."
  return [name, prefix + name, old, prefix + old]
