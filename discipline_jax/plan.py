"""What a fine-tuning config comes to: data, splits, model sizes, token maps and batches.

Everything is checked here, before anything runs or is written.
"""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from jax.sharding import Mesh
from ml_collections import ConfigDict

from discipline_jax import checks, tasks
from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig, read_config
from discipline_jax.models.heads import Classifier, ClassifierConfig
from discipline_jax.models.hilbert_cnn import NUCLEOTIDES, HilbertConfig
from discipline_jax.models.huggingface import resolve
from discipline_jax.models.initialise import INITS, SubTable
from discipline_jax.models.tokenizer import (
  NUM_SPECIAL_TOKENS,
  Vocabulary,
  load_vocabulary,
  make_vocabulary,
)
from discipline_jax.tasks import dna
from discipline_jax.tasks.base import Split, Task, make_split
from discipline_jax.tasks.cache import cached
from discipline_jax.tasks.features import NUM_SPECIAL, Features, featurise
from discipline_jax.tasks.token_maps import make_map
from discipline_jax.training.batches import Batches, round_up
from discipline_jax.training.optimizers import OPTIMIZERS
from discipline_jax.training.sharding import BATCH, make_mesh

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


@dataclasses.dataclass(frozen=True)
class Plan:
  """Everything a run needs that no weight is needed for.

  Attributes:
    config: as given.
    task, features: the data set, and its arrays.
    max_length: longest input in tokens.
    lengths: of the samples, rounded up to the lengths that are compiled.
    seeds, splits, sub_tables: one for each replica.
    checkpoint: directory of the model's files, or None.
    model_config: sizes of the whole model.
    head, dtype: of the model.
    mesh: of all devices.
    batches, num_steps: of training.
  """

  config: ConfigDict
  task: Task
  features: Features
  max_length: int
  lengths: np.ndarray
  seeds: list[int]
  splits: list[Split]
  sub_tables: list[SubTable]
  checkpoint: pathlib.Path | None
  model_config: ClassifierConfig
  head: Classifier
  dtype: jnp.dtype
  mesh: Mesh
  batches: Batches
  num_steps: int

  @property
  def trained_config(self) -> ClassifierConfig:
    """Sizes of the model that is trained: its embedding table has the rows that the task can reach."""
    return dataclasses.replace(self.model_config, vocab_size=len(self.sub_tables[0].rows))


def make_plan(
  config: ConfigDict, devices: Sequence[jax.Device] | None = None, *, download: bool = False
) -> Plan:
  """Reads the data and works out the rest; raises UserError for anything that cannot run.

  Args:
    config: see `defaults.finetune`.
    devices: to run on; by default all.
    download: first download what is missing of the task's files, where they are public.
  """
  _check(config)
  mesh = make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor, devices)
  if download:
    tasks.fetch(config.task.name, data_directory(config), config.task)
  task = tasks.get(config.task.name, data_directory(config), config.task)
  checkpoint, model_config, vocabulary = model_parts(config, task)
  max_length = config.task.max_length
  if max_length is None:
    max_length = task.max_length or model_config.max_length
  if not 3 <= max_length <= model_config.max_length:
    raise UserError(
      f"task.max_length = {max_length} is not from 3 to the {model_config.max_length} positions that the model has;"
      " set task.max_length"
    )

  features = cached(
    pathlib.Path(config.cache_dir).expanduser() / "features",
    task.files,
    # All that is read is encoded, however much of it is trained on.
    [config.task.to_dict() | {"train_fraction": None}, max_length, vocabulary.fingerprint()],
    lambda: featurise(task, vocabulary, max_length),
  )
  lengths = round_up(features.lengths)
  seeds = [config.seed + replica for replica in range(config.replicas)]
  strata = features.labels if task.stratified else None
  splits = [make_split(features.parts, seed, config.task.train_fraction, strata) for seed in seeds]
  num_train = len(splits[0]["train"])
  if config.train.batch_size > num_train:
    raise UserError(
      f"train.batch_size = {config.train.batch_size} is larger than the training set of {num_train} samples; lower it"
    )
  batches = Batches(
    np.stack([split["train"] for split in splits]).astype(np.int32),
    seeds,
    lengths,
    batch_size=config.train.batch_size,
    accumulation=config.train.grad_accumulation,
    row_multiple=mesh.shape[BATCH[0]] * mesh.shape[BATCH[1]],
  )
  return Plan(
    config=config,
    task=task,
    features=features,
    max_length=max_length,
    lengths=lengths,
    seeds=seeds,
    splits=splits,
    sub_tables=[
      _sub_table(config, vocabulary, _known_ids(task, features, split, vocabulary.unk_id), replica)
      for replica, split in enumerate(splits)
    ],
    checkpoint=checkpoint,
    model_config=model_config,
    head=Classifier(task.num_outputs),
    dtype=DTYPES[config.model.dtype],
    mesh=mesh,
    batches=batches,
    num_steps=config.train.steps or config.train.epochs * batches.steps_per_epoch,
  )


def data_directory(config: ConfigDict) -> pathlib.Path:
  """`config.data_dir`, else $DISCIPLINE_DATA, else ~/.cache/discipline_jax."""
  return pathlib.Path(
    config.data_dir or os.environ.get("DISCIPLINE_DATA") or "~/.cache/discipline_jax"
  ).expanduser()


def check_training(config: ConfigDict) -> None:
  """Raises UserError for fields out of range that fine-tuning and pre-training share."""
  checks.at_least(
    config,
    1,
    (
      "train.batch_size",
      "train.grad_accumulation",
      "train.steps",
      "train.log_every_steps",
      "eval.every_steps",
      "eval.batch_size",
      "checkpoint.every_steps",
    ),
  )
  checks.at_least(
    config,
    0,
    (
      "seed",
      "train.warmup_steps",
      "train.weight_decay",
      "train.max_grad_norm",
      "train.learning_rate",
    ),
  )
  checks.rates(config, ("model.dropout", "model.attention_dropout"))
  checks.one_of(config, {"model.init": INITS, "model.dtype": DTYPES, "train.optimizer": OPTIMIZERS})


def _check(config: ConfigDict) -> None:
  check_training(config)
  checks.at_least(config, 1, ("replicas", "train.epochs"))
  checks.at_least(config, 0, ("token_map.seed",))
  if config.seed + config.replicas > 2**31:
    raise UserError(
      f"seed = {config.seed} is more than 2^31 - {config.replicas}; set --config.seed"
    )
  if config.eval.max_examples != -1 and config.eval.max_examples < 1:
    raise UserError(
      f"eval.max_examples = {config.eval.max_examples} is neither positive nor -1 (all); set --config.eval.max_examples"
    )
  if config.task.name is None:
    raise UserError("task.name is not set; set --config.task.name")
  if config.task.name != "custom":
    for name in ("path", "splits", "alphabet", "metric"):
      if config.task[name] is not None:
        raise UserError(
          f"task.{name} is set, but task {config.task.name} has its own; unset it, or use configs/custom.py"
        )
  if config.train.grad_accumulation > config.train.batch_size:
    raise UserError(
      f"train.grad_accumulation = {config.train.grad_accumulation} parts of {config.train.batch_size} samples; lower it"
    )
  checks.one_of(config, {"eval.select": ("best", "last")})


def model_parts(
  config: ConfigDict, task: Task
) -> tuple[pathlib.Path | None, ClassifierConfig, Vocabulary]:
  """The model's directory (None where it has no checkpoint), its sizes with the run's dropout, and its vocabulary."""
  sizes = {name: value for name, value in config.model.config.items() if value is not None}
  if config.model.checkpoint is not None:
    if sizes:
      raise UserError(
        f"model.config.{min(sizes)} is set, but the sizes come from model.checkpoint; unset one of the two"
      )
    checkpoint = resolve(config.model.checkpoint)
    model_config = read_config(checkpoint)
    vocabulary = load_vocabulary(checkpoint, model_config.vocab_size)
  elif config.model.init == "scratch":
    if sizes.get("model_type") == "hilbert_cnn":
      return None, *_hilbert_cnn(config, task, sizes)
    checkpoint = None
    model_config = ModelConfig.from_dict(
      {"model_type": "bert", **sizes}, "in --config.model.config"
    )
    if task.alphabet is None:
      raise UserError(
        f"task {task.name} is text and needs the tokenizer of a model; set --config.model.checkpoint"
      )
    vocabulary = make_vocabulary(task.alphabet.symbols, model_config.vocab_size)
  else:
    raise UserError(
      f"model.init = {config.model.init!r} needs --config.model.checkpoint, a directory in"
      " Hugging Face's format or a hub id; or set --config.model.init=scratch"
    )
  return checkpoint, with_dropout(model_config, config), vocabulary


def with_dropout(model_config: ModelConfig, config: ConfigDict) -> ModelConfig:
  """Sizes with the run's own dropout, where it is set."""
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
  letters = set() if task.alphabet is None else set(task.alphabet.symbols)
  wrong = sorted(letters - set(dna.ALPHABET.symbols))
  if wrong or not set(NUCLEOTIDES) <= letters:
    what = f"has {' '.join(wrong)[:40]}" if wrong else f"lacks one of {NUCLEOTIDES}"
    raise UserError(
      f"model_type hilbert_cnn reads DNA in capital letters ({''.join(dna.ALPHABET.symbols)}), but task {task.name}"
      f" {what}; choose another model, or correct the file"
    )
  for name, is_set in (
    *((f"model.config.{name}", True) for name in sizes if name != "model_type"),
    ("model.attention_dropout", config.model.attention_dropout is not None),
    ("train.weight_decay", config.train.weight_decay != 0),
    # Batch normalization is over a part, and a part may be empty.
    ("train.grad_accumulation", config.train.grad_accumulation != 1),
    ("token_map.kind", config.token_map.kind != "identity"),
  ):
    if is_set:
      wanted = {
        "token_map.kind": "set it to identity",
        "train.grad_accumulation": "set it to 1",
      }.get(name, "unset it")
      raise UserError(f"{name} does not apply to model_type hilbert_cnn; {wanted}")
  assert task.alphabet is not None
  vocabulary = make_vocabulary(task.alphabet.symbols, NUM_SPECIAL_TOKENS + len(letters))
  dropout = {} if config.model.dropout is None else {"dropout": config.model.dropout}
  return HilbertConfig(vocabulary.tokens, len(vocabulary.tokens), **dropout), vocabulary


def _known_ids(task: Task, features: Features, split: Split, unk_id: int) -> np.ndarray:
  """The token ids of the symbols, with the unknown token's for those of an open alphabet that training does not see."""
  if task.alphabet is None or not task.alphabet.is_open:
    return features.symbol_ids
  seen = np.bincount(features.symbols[split["train"]].ravel(), minlength=len(features.symbol_ids))
  known = seen > 0
  known[:NUM_SPECIAL] = True
  for part, samples in split.items():
    others = int((~known[features.symbols[samples]]).sum())
    if others:
      logging.warning("%d symbols of the %s part do not occur in training", others, part)
  return np.where(known, features.symbol_ids, unk_id)


def token_map(
  config: ConfigDict, vocabulary: Vocabulary, symbol_ids: np.ndarray, replica: int
) -> np.ndarray:
  """The token map of a replica; `symbol_ids` as in `Features`."""
  first_seed = config.seed if config.token_map.seed is None else config.token_map.seed
  return make_map(
    config.token_map.kind,
    vocabulary,
    symbol_ids[NUM_SPECIAL:],
    shift=config.token_map.shift,
    seed=first_seed + replica,
    path=config.token_map.path,
    keep_special=config.token_map.keep_special,
  )


def _sub_table(
  config: ConfigDict, vocabulary: Vocabulary, symbol_ids: np.ndarray, replica: int
) -> SubTable:
  table = token_map(config, vocabulary, symbol_ids, replica)
  rows = table[symbol_ids]
  if config.train.weight_decay:  # it moves the rows that no input reads, too
    return SubTable.whole(rows, len(vocabulary.tokens))
  return SubTable.reachable(rows)
