"""Finds the directory of a checkpoint: a local directory, a kept step of a pre-training, or a model of the hub."""

import pathlib
import re

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched
from discipline_jax.files.places import Path, place
from discipline_jax.models.weights import weight_files

CONFIG = "config.json"  # written last; a directory without it is no checkpoint
KEPT = "steps"  # folder in a pre-training's workdir, with one checkpoint for each kept step
CORPUS_RECORD = (
  "pretraining.json"  # file in each kept step: the kind of corpus that the model was pre-trained on
)
_HUB_FILES = [
  CONFIG,
  "tokenizer*",
  "vocab*",
  "merges.txt",
  "special_tokens_map.json",
  "added_tokens.json",
  "spiece.model",
  "sentencepiece.bpe.model",
]
_HUB_SAFETENSORS = ["model.safetensors", "model-*.safetensors", "model.safetensors.index.json"]
_HUB_BIN = ["pytorch_model.bin", "pytorch_model-*.bin", "pytorch_model.bin.index.json"]
# Weights of other frameworks are downloaded if there are no others.
_HUB_OTHERS = ["flax_model.msgpack", "tf_model.h5"]
_SHORT_COMMIT = 7  # the fewest digits that name a commit


def resolve(checkpoint: str, *, revision: str | None = None, weights: bool = True) -> pathlib.Path:
  """Returns the directory of a checkpoint in Hugging Face's format.

  Args:
    checkpoint: one of: a directory; `WORKDIR@STEP`, a kept step of a pre-training; `WORKDIR`, its last kept step; an
      id of a model on the hub, whose files are downloaded into Hugging Face's cache, or `ID@REVISION`.
    revision: branch, tag or commit of a model on the hub; None means the one in `checkpoint`, or else its main branch.
    weights: False downloads only the config and the tokenizer.

  Raises:
    UserError: the checkpoint does not exist or cannot be downloaded, a local one is given with a revision, or two
      revisions are given.
  """
  local = _local(checkpoint)
  if local is None:
    name, _, own = checkpoint.partition("@")
    return _download(name, _revision(checkpoint, own, revision), weights)
  if revision is not None:
    raise UserError(
      f"model.revision = {revision!r} is only for models of the Hugging Face hub, but {checkpoint} is a local"
      " directory; leave model.revision unset"
    )
  workdir = place(checkpoint)
  if kept_steps(workdir) and not (workdir / "result.json").is_file():
    logging.warning(
      "The pre-training in %s is not finished; using its step %s", workdir, local.name
    )
  return local


def _revision(checkpoint: str, own: str, given: str | None) -> str | None:
  """Returns the revision of a checkpoint: `own`, from its name, or `given`; raises UserError if they differ."""
  if not own or given is None:
    return own or given
  for longer, shorter in ((own, given), (given, own)):
    is_begin = re.fullmatch(r"[0-9a-f]{7,40}", longer) and len(shorter) >= _SHORT_COMMIT
    if longer == shorter or (is_begin and longer.startswith(shorter)):
      return longer
  raise UserError(
    f"model.checkpoint = {checkpoint!r} has another revision than model.revision = {given!r}; leave model.revision"
    " unset"
  )


def local_directory(checkpoint: str) -> pathlib.Path | None:
  """Returns the local directory that `checkpoint` names, or None if it is gone or an id of the hub."""
  try:
    return _local(checkpoint)
  except UserError:
    return None


def checkpoint_files(directory: pathlib.Path, *, weights: bool) -> list[pathlib.Path]:
  """Returns the files of a checkpoint that are read: its config, its tokenizer and, if asked for, its weights."""
  files = {file for pattern in _HUB_FILES for file in directory.glob(pattern)}
  return sorted(files | {*weight_files(directory)} if weights else files)


def hub_commit(directory: pathlib.Path) -> str | None:
  """Returns the commit of a model's directory in Hugging Face's cache, or None for any other directory."""
  repository = directory.parent.parent.name
  if directory.parent.name != "snapshots" or not repository.startswith("models--"):
    return None
  return directory.name if re.fullmatch(r"[0-9a-f]{40}", directory.name) else None


def kept_steps(workdir: Path) -> list[int]:
  """Returns the kept steps of a pre-training in rising order; an empty list for any other directory."""
  folder = workdir / KEPT
  if not isinstance(folder, pathlib.Path):  # there the files of a step appear one after the other
    steps = [file.parent.name for file in folder.glob(f"*/{CONFIG}")]
  else:
    steps = [one.name for one in folder.iterdir()] if folder.is_dir() else []
  return sorted(int(name) for name in steps if name.isdigit())


def _local(checkpoint: str) -> pathlib.Path | None:
  """Returns the local directory that `checkpoint` names, or None if it can only be an id of the hub.

  What is in a bucket is copied.
  """
  path = place(checkpoint)
  if kept_steps(path):
    return fetched(path / KEPT / str(kept_steps(path)[-1]))
  if (path / "model" / "task.json").is_file():
    raise UserError(
      f"{path} is the workdir of a fine-tuning; export its model with --config.mode=export, and give that folder"
    )
  if path.is_dir():
    return fetched(path)
  workdir, _, step = checkpoint.rpartition("@")
  folder = place(workdir)
  steps = kept_steps(folder) if workdir else []
  if workdir and folder.is_dir() and not steps:
    raise UserError(
      f"{workdir} is a directory, but not the workdir of a pre-training, which has kept steps to name after the @;"
      f" give {workdir} alone"
    )
  if steps:
    if step not in map(str, steps):
      raise UserError(f"no step {step} is kept in {workdir}; it has: {', '.join(map(str, steps))}")
    return fetched(folder / KEPT / step)
  if path.is_file():
    raise UserError(
      f"{checkpoint} is a file, and a checkpoint is a directory; give the directory, {path.parent}"
    )
  name = checkpoint.partition("@")[0]
  if checkpoint.startswith((".", "/", "~")) or name.count("/") > 1 or not name:
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
    directory = download(_HUB_FILES if not weights else [*_HUB_FILES, *_HUB_SAFETENSORS])
    if weights and not any(directory.glob("*.safetensors")):
      directory = download([*_HUB_FILES, *_HUB_BIN])
      if not any(directory.glob("*.bin")):
        directory = download([*_HUB_FILES, *_HUB_OTHERS])
    return directory
  except Exception as error:  # raised by the hub's client, by httpx, or by the operating system
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    what = f"{checkpoint!r}" if revision is None else f"{checkpoint!r} (revision {revision})"
    raise UserError(
      f"{what} is not a local directory, and could not be downloaded from huggingface.co ({reason});"
      " download its files by hand and give their directory as --config.model.checkpoint"
    ) from None
