"""Resolves the model that a fine-tuning config asks for: its checkpoint, sizes and vocabulary. No weight is read."""

import dataclasses
import pathlib

import jax.numpy as jnp
from absl import logging
from jax.typing import DTypeLike
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig, read_config
from discipline_jax.models.heads import Classifier, ClassifierConfig
from discipline_jax.models.hilbert_cnn import NUCLEOTIDES, HilbertConfig
from discipline_jax.models.locate import hub_commit, resolve
from discipline_jax.models.tokenizer import (
  NUM_SPECIAL_TOKENS,
  Vocabulary,
  load_vocabulary,
  make_vocabulary,
)
from discipline_jax.tasks import dna
from discipline_jax.tasks.base import Task

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


@dataclasses.dataclass(frozen=True)
class Model:
  """A model before its weights are read.

  Attributes:
    checkpoint: directory of its files, or None if it has no checkpoint.
    config: its sizes, with the run's dropout.
    vocabulary: its tokens.
    dtype: dtype of the arithmetic; weights are float32.
  """

  checkpoint: pathlib.Path | None
  config: ClassifierConfig
  vocabulary: Vocabulary
  dtype: DTypeLike

  @property
  def commit(self) -> str | None:
    """The commit of a checkpoint that came from the hub."""
    return None if self.checkpoint is None else hub_commit(self.checkpoint)


def resolve_model(config: ConfigDict, task: Task) -> Model:
  """Finds the checkpoint, or makes sizes and a vocabulary for a model that has none.

  Args:
    config: see `defaults.finetune`.
    task: the task that the model is for.

  Raises:
    UserError: fields that do not go together, or a checkpoint that cannot be found or read.
  """
  dtype = DTYPES[config.model.dtype]
  sizes = given_sizes(config)
  if config.model.checkpoint is not None:
    checkpoint = resolve(config.model.checkpoint, revision=config.model.revision)
    model_config = read_config(checkpoint)
    _check_layers(config, model_config)
    vocabulary = load_vocabulary(checkpoint, model_config.vocab_size)
    return Model(checkpoint, with_dropout(model_config, config), vocabulary, dtype)
  if config.model.pretrained_layers is not None:
    raise UserError(
      "model.pretrained_layers needs --config.model.checkpoint; set it, or --config.model.pretrained_layers=None"
    )
  if config.model.init != "scratch":
    raise UserError(
      f"model.init = {config.model.init!r} needs --config.model.checkpoint, a directory in"
      " Hugging Face's format or a hub id; or set --config.model.init=scratch"
    )
  if sizes.get("model_type") == "hilbert_cnn":
    return Model(None, *_hilbert_cnn(config, task, sizes), dtype)
  model_config = ModelConfig.from_dict({"model_type": "bert", **sizes}, "in --config.model.config")
  if task.alphabet is None:
    raise UserError(
      f"task {task.name} is text and needs the tokenizer of a model; set --config.model.checkpoint"
    )
  if not sizes.keys() & {"num_hidden_layers", "hidden_size"}:
    logging.warning(
      "no checkpoint gives the sizes of the model, so they are those of BERT-base, %d layers x %d; set"
      " --config.model.config.num_hidden_layers and the others for a smaller one",
      model_config.num_hidden_layers,
      model_config.hidden_size,
    )
  vocabulary = make_vocabulary(task.alphabet.symbols, model_config.vocab_size)
  return Model(None, with_dropout(model_config, config), vocabulary, dtype)


def _check_layers(config: ConfigDict, model_config: ModelConfig) -> None:
  """Raises UserError if `model.pretrained_layers` does not name layers that can differ from the others."""
  layers = config.model.pretrained_layers
  if layers is None:
    return
  number = model_config.num_hidden_layers
  what = f"model.pretrained_layers = {layers}"
  if config.model.init not in ("pretrained", "re_emb"):
    raise UserError(
      f"{what} does not apply to model.init = {config.model.init}; set --config.model.pretrained_layers=None"
    )
  if model_config.num_hidden_groups is not None:
    raise UserError(
      f"{what}, but layers of ALBERT share their weights; set --config.model.pretrained_layers=None"
    )
  if len({*layers}) < len(layers) or not {*layers} <= {*range(number)}:
    raise UserError(
      f"{what} is not a list of different numbers from 0 to {number - 1}, the layers of the model; set"
      " --config.model.pretrained_layers, as in '(0,1)'"
    )


def given_sizes(config: ConfigDict) -> dict:
  """Returns the fields of `model.config` that are set; raises UserError if there is a checkpoint, which has its own."""
  sizes = {name: value for name, value in config.model.config.items() if value is not None}
  if sizes and config.model.checkpoint is not None:
    name = min(sizes)
    raise UserError(
      f"model.config.{name} is set, but the sizes come from model.checkpoint; set --config.model.config.{name}=None,"
      " or --config.model.checkpoint=None and --config.model.init=scratch"
    )
  return sizes


def with_dropout(model_config: ModelConfig, config: ConfigDict) -> ModelConfig:
  """Returns the sizes with the dropout rates of the run, if it sets them."""
  if config.model.dropout is not None:
    model_config = dataclasses.replace(
      model_config, hidden_dropout_prob=config.model.dropout, classifier_dropout=None
    )
  if config.model.attention_dropout is not None:
    model_config = dataclasses.replace(
      model_config, attention_probs_dropout_prob=config.model.attention_dropout
    )
  return model_config


def _hilbert_cnn(config: ConfigDict, task: Task, sizes: dict) -> tuple[HilbertConfig, Vocabulary]:
  if task.pairs or not isinstance(task.answer.head, Classifier):
    raise UserError(
      f"model_type hilbert_cnn answers for single whole sequences, but task {task.name} asks for"
      f" {'pairs' if task.pairs else task.answer.kind}; choose another model"
    )
  letters = set() if task.alphabet is None else set(task.alphabet.symbols)
  wrong = sorted(letters - set(dna.ALPHABET.symbols))
  if wrong or not set(NUCLEOTIDES) <= letters:
    what = f"has {' '.join(wrong)[:40]}" if wrong else f"lacks one of {NUCLEOTIDES}"
    raise UserError(
      f"model_type hilbert_cnn reads DNA in capital letters ({''.join(dna.ALPHABET.symbols)}), but task {task.name}"
      f" {what}; correct the file (task.case=upper reads lower case as capitals), or choose another model"
    )
  for name, is_set, remedy in (
    *((f"model.config.{name}", True, "None") for name in sizes if name != "model_type"),
    ("model.attention_dropout", config.model.attention_dropout is not None, "None"),
    ("train.weight_decay", config.train.weight_decay != 0, "0"),
    ("train.parameters", config.train.parameters != "all", "all"),
    # Batch normalization is over a part of the update, and a part may be empty.
    ("train.grad_accumulation", config.train.grad_accumulation != 1, "1"),
    ("token_map.kind", config.token_map.kind not in ("auto", "identity"), "identity"),
  ):
    if is_set:
      raise UserError(
        f"{name} does not apply to model_type hilbert_cnn; set --config.{name}={remedy}"
      )
  assert task.alphabet is not None
  vocabulary = make_vocabulary(task.alphabet.symbols, NUM_SPECIAL_TOKENS + len(letters))
  dropout = {} if config.model.dropout is None else {"dropout": config.model.dropout}
  return HilbertConfig(vocabulary.tokens, len(vocabulary.tokens), **dropout), vocabulary
