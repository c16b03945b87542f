"""Loads a checkpoint in Hugging Face's format, from a directory or the hub, into a model of ours."""

import pathlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import nnx
from flax.traverse_util import flatten_dict, unflatten_dict

from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig, read_config
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.heads import Head, encoder_of
from discipline_jax.models.key_stream import key_stream
from discipline_jax.models.names import checkpoint_name
from discipline_jax.models.weights import open_weights, read_tensor

_HUB_FILES = ["config.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json"]
_HUB_SAFETENSORS = ["model.safetensors", "model-*.safetensors", "model.safetensors.index.json"]
_READERS = 4
KEPT = "steps"  # the folder of a pre-training's workdir with a checkpoint of each step that is kept
_HUB_BIN = ["pytorch_model.bin", "pytorch_model-*.bin", "pytorch_model.bin.index.json"]


def load(
  checkpoint: str,
  head: Head | None = None,
  *,
  dtype: jnp.dtype = jnp.float32,
  seed: int = 0,
) -> nnx.Module:
  """Loads a BERT, RoBERTa or ALBERT.

  Args:
    checkpoint: a directory in Hugging Face's format, or a model id of the hub.
    head: None for the bare encoder, or the head to put on it.
    dtype: dtype of the arithmetic; weights are float32.
    seed: draws what the checkpoint lacks (pooler, head); which that was is logged.

  Raises:
    UserError: no such checkpoint, another architecture, a missing encoder weight, a wrong shape, a
      broken file. The message names the file and the tensor.
  """
  directory = resolve(checkpoint)
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
  """Returns a tree of the checkpoint's weights, and drawn ones where it has no right ones.

  Args:
    directory: in Hugging Face's format.
    config: the checkpoint's.
    shapes: of the tree, keyed as `nnx.to_pure_dict` keys it.
    draw: key -> a whole tree drawn at random; jitted, so that it is traced once. Only the leaves that are taken from
      it are computed.
    key: for `draw`.
    fresh: prefixes of weights that are drawn even where the checkpoint has them.
  """
  weights = open_weights(directory)
  sources, missing, lost = {}, [], []
  leaves = flatten_dict(shapes)
  has_head = any(path[0] == "base_model" for path in leaves)
  for path in leaves:
    name = ".".join(str(part) for part in path).removeprefix("base_model.")
    is_head = has_head and path[0] != "base_model"
    source = next((alias for alias in _aliases(name, config) if alias in weights), None)
    if source is None or name.startswith(fresh):
      missing.append((path, name))
      # A head or a pooler may be drawn; every other weight must be there.
      if not (is_head or name.startswith(("pooler.", *fresh))):
        lost.append(name)
    else:
      sources[path] = source
  if lost:
    raise UserError(
      f"{lost[0]} is missing ({len(lost)} weights of the encoder are), {directory}; the"
      f" checkpoint is not a whole {config.model_type} encoder"
    )
  found = {}
  with ThreadPoolExecutor(_READERS) as pool:  # reading a file takes more time than all else here
    values = pool.map(lambda source: read_tensor(weights, source, directory), sources.values())
    pairs = zip(sources.items(), values, strict=True)
  for (path, source), value in pairs:
    leaf, is_head = leaves[path], has_head and path[0] != "base_model"
    if value.shape != leaf.shape and is_head:  # of another task
      missing.append((path, ".".join(map(str, path))))
      continue
    if value.shape != leaf.shape:
      raise UserError(
        f"{source} has shape {list(value.shape)}, the config asks for {list(leaf.shape)},"
        f" {directory}; use the config.json made with these weights"
      )
    if not np.issubdtype(value.dtype, np.floating) and value.dtype != jnp.bfloat16:
      raise UserError(
        f"{source} has dtype {value.dtype}, not a floating one, {directory}; download the checkpoint again"
      )
    if not _is_finite(value):
      raise UserError(
        f"{source} holds values that are not finite, {directory}; download the checkpoint again"
      )
    found[path] = jax.device_put(value.astype(np.float32, copy=False))
  if missing:
    logging.warning(
      "Not from the checkpoint, drawn anew: %s", ", ".join(name for _, name in missing)
    )
    drawn = jax.jit(lambda key: [flatten_dict(draw(key))[path] for path, _ in missing])(key)
    found.update(zip((path for path, _ in missing), drawn, strict=True))
  return unflatten_dict(found)


def _is_finite(value: np.ndarray) -> bool:
  """Whether all numbers are: the sum of the squares, which is quickly told, is not where one of them is not."""
  with np.errstate(over="ignore", invalid="ignore"):
    return bool(np.isfinite(np.vdot(value, value)) or np.isfinite(value).all())


def resolve(checkpoint: str, *, weights: bool = True) -> pathlib.Path:
  """The directory of a checkpoint in Hugging Face's format.

  Args:
    checkpoint: a directory; `WORKDIR@STEP`, a kept step of a pre-training, or `WORKDIR`, its last one; or an id of the
      hub, whose files are downloaded into Hugging Face's cache.
    weights: False where sizes and vocabulary are enough.
  """
  path = pathlib.Path(checkpoint).expanduser()
  if kept_steps(path):
    last = kept_steps(path)[-1]
    if not (path / "result.json").is_file():
      logging.warning("The pre-training in %s has not ended: its step %d is taken", path, last)
    return path / KEPT / str(last)
  if path.is_dir():
    return path
  workdir, _, step = checkpoint.rpartition("@")
  steps = kept_steps(pathlib.Path(workdir).expanduser()) if workdir else []
  if steps:
    if step not in map(str, steps):
      raise UserError(f"no step {step} is kept in {workdir}; it has: {', '.join(map(str, steps))}")
    return pathlib.Path(workdir).expanduser() / KEPT / step
  looks_local = checkpoint.startswith((".", "/", "~")) or checkpoint.count("/") > 1 or path.exists()
  if looks_local:
    raise UserError(
      f"no checkpoint directory {checkpoint}; put config.json and model.safetensors of a Hugging Face model there,"
      " or give a hub id such as bert-base-uncased"
    )
  import huggingface_hub  # half a second, and only a hub id needs it

  def download(patterns: list[str]) -> pathlib.Path:
    return pathlib.Path(huggingface_hub.snapshot_download(checkpoint, allow_patterns=patterns))

  try:
    if not weights:
      return download(_HUB_FILES)
    directory = download([*_HUB_FILES, *_HUB_SAFETENSORS])
    has_weights = any(directory.glob("*.safetensors"))
    return directory if has_weights else download([*_HUB_FILES, *_HUB_BIN])
  except Exception as error:  # of the hub's client, of httpx, and of the operating system
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    raise UserError(
      f"no directory {checkpoint!r}, and it could not be had from huggingface.co ({reason});"
      " download its files by hand and give their directory as --config.model.checkpoint"
    ) from None


def kept_steps(workdir: pathlib.Path) -> list[int]:
  """The steps of a pre-training that are kept, in rising order; none of what is no such workdir."""
  folder = workdir / KEPT
  return (
    sorted(int(one.name) for one in folder.iterdir() if one.name.isdigit())
    if folder.is_dir()
    else []
  )


def _aliases(name: str, config: ModelConfig) -> list[str]:
  """The names a weight may have: with and without the family's prefix, and TensorFlow's for LayerNorm."""
  name = checkpoint_name(name, config)
  old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
    "LayerNorm.bias", "LayerNorm.beta"
  )
  prefix = f"{config.model_type}."
  return [name, prefix + name, old, prefix + old]
