"""Resolves a pre-training config: phases, kept steps, masking and model sizes.

Everything that can be wrong before the corpus is looked at is checked here.
"""

import dataclasses
import pathlib

import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.corpora.masking import Masking
from discipline_jax.corpora.source import check_corpus, describe_vocabulary
from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig, read_config, read_fields
from discipline_jax.models.locate import resolve
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary
from discipline_jax.models.weights import open_weights
from discipline_jax.programs.finetuning_plan import check_training
from discipline_jax.programs.model import given_sizes, with_dropout
from discipline_jax.training.objectives import KINDS
from discipline_jax.training.optimizers import warn_of_long_warmup
from discipline_jax.training.sharding import describe_mesh, num_shards


@dataclasses.dataclass(frozen=True)
class Phase:
  """The updates `first` + 1 to `last`, on rows of `length` tokens."""

  length: int
  first: int
  last: int


def phases(config: ConfigDict) -> list[Phase]:
  """Returns the phases of a config, one for each of `corpus.length` that has any update."""
  shares = np.array(config.train.phases)
  ends = np.round(np.cumsum(shares) / shares.sum() * config.train.steps).astype(int).tolist()
  firsts = [0, *ends[:-1]]
  return [
    Phase(length, first, last)
    for length, first, last in zip(config.corpus.length, firsts, ends, strict=True)
    if first < last
  ]


def kept_steps(config: ConfigDict) -> tuple[int, ...]:
  """Returns the steps whose weights are kept: `checkpoint.keep_steps` and the last step."""
  last = config.train.steps
  return tuple(sorted({*(step for step in config.checkpoint.keep_steps if step < last), last}))


def masking(config: ConfigDict) -> Masking:
  """Returns how tokens are masked; raises UserError if the shares do not add up."""
  try:
    fields = config.masking.to_dict()
    if fields["span"] is None:  # the neighbours of a k-mer hold its letters
      fields["span"] = config.corpus.k or 1
    return Masking(**fields)
  except ValueError as error:
    raise UserError(f"{error}; set --config.masking") from None


def model_parts(
  config: ConfigDict, vocabulary: Vocabulary
) -> tuple[pathlib.Path | None, ModelConfig]:
  """Returns the checkpoint that training starts from, if any, and the model's sizes.

  Args:
    config: see `defaults.pretrain`.
    vocabulary: vocabulary of the corpus.

  Raises:
    UserError: the checkpoint has another vocabulary than the corpus.
  """
  model_config = sizes(config)
  if config.model.checkpoint is None:
    size, pad_id = len(vocabulary.tokens), vocabulary.pad_id
    return None, dataclasses.replace(model_config, vocab_size=size, pad_token_id=pad_id)
  checkpoint = resolve(config.model.checkpoint, revision=config.model.revision)
  if load_vocabulary(checkpoint, model_config.vocab_size).tokens != vocabulary.tokens:
    raise UserError(
      f"the corpus has another vocabulary than {config.model.checkpoint};"
      f" set --config.corpus.vocabulary={config.model.checkpoint}"
    )
  _check_decoder(checkpoint)
  return checkpoint, model_config


def _check_decoder(checkpoint: pathlib.Path) -> None:
  """Raises UserError if the checkpoint's output layer is not its table of word embeddings."""
  if read_fields(checkpoint).get("tie_word_embeddings", True):
    return
  own = [name for name in open_weights(checkpoint) if name.endswith("decoder.weight")]
  if own:
    raise UserError(
      f"{own[0]} is a separate output layer (tie_word_embeddings is false), but here the word embeddings are the output"
      f" layer, {checkpoint}; to go on without it, set tie_word_embeddings to true in its config.json"
    )


def sizes(config: ConfigDict) -> ModelConfig:
  """Returns the model's sizes; without a checkpoint, the vocabulary still decides `vocab_size` and `pad_token_id`."""
  own = given_sizes(config)
  is_causal = config.objective.kind == "causal"
  if config.model.checkpoint is not None:
    directory = resolve(config.model.checkpoint, revision=config.model.revision)
    model_config = read_config(directory)
    if model_config.is_decoder != is_causal:
      raise UserError(
        f"objective.kind = {config.objective.kind!r}, but {config.model.checkpoint} is"
        f" {'' if model_config.is_decoder else 'not '}a left-to-right model; set --config.objective.kind, or give"
        " another --config.model.checkpoint"
      )
  else:
    own |= {"is_decoder": True} if is_causal else {}
    model_config = ModelConfig.from_dict({"model_type": "bert", **own}, "in --config.model.config")
  if KINDS[config.objective.kind][1] is not None and not model_config.family.has_pairs:
    raise UserError(
      f"{model_config.model_type} has no task on pairs of segments; set --config.objective.kind=mlm"
    )
  if max(config.corpus.length) > model_config.max_length:
    raise UserError(
      f"corpus.length = {config.corpus.length}, but the model has {model_config.max_length} positions; lower it, or"
      " raise model.config.max_position_embeddings"
    )
  return with_dropout(model_config, config)


def check(config: ConfigDict, mesh: Mesh) -> None:
  """Raises UserError for everything that can be wrong before the corpus is looked at; warns of a long warm-up."""
  check_training(config)
  command_line.at_least(config, 1, ("eval.max_examples",))
  if any(step < 0 for step in config.checkpoint.keep_steps):
    raise UserError(
      f"checkpoint.keep_steps = {config.checkpoint.keep_steps} has a step below 0; set --config.checkpoint.keep_steps"
    )
  check_corpus(config)
  masking(config)
  if (config.model.init == "scratch") != (config.model.checkpoint is None):
    raise UserError(
      f"model.init = {config.model.init!r} with model.checkpoint = {config.model.checkpoint!r}: scratch has no"
      " checkpoint, and every other one needs a checkpoint; set one of the two"
    )
  sizes(config)
  lengths, shares = config.corpus.length, config.train.phases
  if len(lengths) != len(shares) or min(shares) < 0 or sum(shares) <= 0:
    raise UserError(
      f"train.phases = {shares} is not a share of the steps for each of corpus.length = {lengths}; set both"
    )
  _check_rows(config, num_shards(mesh))
  warn_of_long_warmup(config.train, config.train.steps)


def _check_rows(config: ConfigDict, shards: int) -> None:
  """Raises UserError if the rows of a batch cannot be spread evenly over devices."""
  parts = config.train.grad_accumulation
  for name, size, wanted in (
    ("train.batch_size", config.train.batch_size, shards * parts),
    ("eval.batch_size", config.eval.batch_size, shards),
  ):
    if size % wanted:
      raise UserError(
        f"{name} = {size} is not a multiple of {wanted} ({shards} device(s) along the mesh's data axes, {parts} part(s)"
        f" of an update); set --config.{name}"
      )


def describe(config: ConfigDict, mesh: Mesh) -> dict[str, str]:
  """Returns named lines about the corpus, the model and the training, as `--dry-run` shows them."""
  train = config.train
  runs = ", ".join(
    f"{phase.last - phase.first:,} updates of {train.batch_size} x {phase.length} tokens"
    for phase in phases(config)
  )
  own = ", ".join(
    f"{name} {value}"
    for name, value in config.model.config.items()
    if value is not None and name != "vocab_size"  # the vocabulary decides it
  )
  kind = config.objective.kind
  masks = "" if kind == "causal" else f"; {masking(config).summary}"
  return {
    "corpus": f"{config.corpus.name} ({config.corpus.path or 'generated'})",
    "vocabulary": describe_vocabulary(config),
    "model": f"{config.model.init} ({config.model.checkpoint or own or 'BERT-base'}), {config.model.dtype}",
    "objective": f"{kind}{masks}",
    "training": f"{runs}; {train.optimizer} at rate {train.learning_rate:g}, warm-up {train.warmup_steps:,}",
    "kept steps": ", ".join(map(str, kept_steps(config))),
    "devices": describe_mesh(mesh),
  }
