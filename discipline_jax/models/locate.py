"""Finds the directory of a checkpoint: a local directory, a kept step of a pre-training, or a model of the hub."""

import pathlib
import re

from absl import logging

from discipline_jax.errors import UserError

KEPT = "steps"  # folder in a pre-training's workdir, with one checkpoint for each kept step
CORPUS_RECORD = (
  "pretraining.json"  # file in each kept step: the kind of corpus that the model was pre-trained on
)
_HUB_FILES = ["config.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json"]
_HUB_SAFETENSORS = ["model.safetensors", "model-*.safetensors", "model.safetensors.index.json"]
_HUB_BIN = ["pytorch_model.bin", "pytorch_model-*.bin", "pytorch_model.bin.index.json"]


def resolve(checkpoint: str, *, revision: str | None = None, weights: bool = True) -> pathlib.Path:
  """Returns the directory of a checkpoint in Hugging Face's format.

  Args:
    checkpoint: one of: a directory; `WORKDIR@STEP`, a kept step of a pre-training; `WORKDIR`, its last kept step; an
      id of a model on the hub, whose files are downloaded into Hugging Face's cache.
    revision: branch, tag or commit of a model on the hub; None means its main branch.
    weights: False downloads only the config and the tokenizer.

  Raises:
    UserError: the checkpoint does not exist or cannot be downloaded, or a local one is given with a revision.
  """
  local = _local(checkpoint)
  if local is None:
    return _download(checkpoint, revision, weights)
  if revision is not None:
    raise UserError(
      f"model.revision = {revision!r} is only for models of the Hugging Face hub, but {checkpoint} is a local"
      " directory; leave model.revision unset"
    )
  return local


def hub_commit(directory: pathlib.Path) -> str | None:
  """Returns the commit of a model's directory in Hugging Face's cache, or None for any other directory."""
  repository = directory.parent.parent.name
  if directory.parent.name != "snapshots" or not repository.startswith("models--"):
    return None
  return directory.name if re.fullmatch(r"[0-9a-f]{40}", directory.name) else None


def kept_steps(workdir: pathlib.Path) -> list[int]:
  """Returns the kept steps of a pre-training in rising order; an empty list for any other directory."""
  folder = workdir / KEPT
  return (
    sorted(int(one.name) for one in folder.iterdir() if one.name.isdigit())
    if folder.is_dir()
    else []
  )


def _local(checkpoint: str) -> pathlib.Path | None:
  """Returns the local directory that `checkpoint` names, or None if it can only be an id of the hub."""
  path = pathlib.Path(checkpoint).expanduser()
  if kept_steps(path):
    last = kept_steps(path)[-1]
    if not (path / "result.json").is_file():
      logging.warning("The pre-training in %s is not finished; using its step %d", path, last)
    return path / KEPT / str(last)
  if path.is_dir():
    return path
  workdir, _, step = checkpoint.rpartition("@")
  steps = kept_steps(pathlib.Path(workdir).expanduser()) if workdir else []
  if steps:
    if step not in map(str, steps):
      raise UserError(f"no step {step} is kept in {workdir}; it has: {', '.join(map(str, steps))}")
    return pathlib.Path(workdir).expanduser() / KEPT / step
  if checkpoint.startswith((".", "/", "~")) or checkpoint.count("/") > 1 or path.exists():
    raise UserError(
      f"no checkpoint directory {checkpoint}; put config.json and model.safetensors of a Hugging Face model there,"
      " or give a hub id such as bert-base-uncased"
    )
  return None


def _download(checkpoint: str, revision: str | None, weights: bool) -> pathlib.Path:
  import huggingface_hub  # takes half a second, and only a hub id needs it

  def download(patterns: list[str]) -> pathlib.Path:
    return pathlib.Path(
      huggingface_hub.snapshot_download(checkpoint, revision=revision, allow_patterns=patterns)
    )

  try:
    if not weights:
      return download(_HUB_FILES)
    directory = download([*_HUB_FILES, *_HUB_SAFETENSORS])
    has_weights = any(directory.glob("*.safetensors"))
    return directory if has_weights else download([*_HUB_FILES, *_HUB_BIN])
  except Exception as error:  # raised by the hub's client, by httpx, or by the operating system
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    what = f"{checkpoint!r}" if revision is None else f"{checkpoint!r} (model.revision {revision})"
    raise UserError(
      f"{what} is no local directory, and could not be downloaded from huggingface.co ({reason});"
      " download its files by hand and give their directory as --config.model.checkpoint"
    ) from None
