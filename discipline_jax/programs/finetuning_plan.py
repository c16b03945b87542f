"""Resolves a fine-tuning config into a plan: data, splits, model and token maps.

Everything is checked here, before anything runs or is written.
"""

import dataclasses

import numpy as np
from absl import logging
from jaxtyping import Float32, Int32
from ml_collections import ConfigDict

from discipline_jax import command_line, tasks
from discipline_jax.errors import UserError
from discipline_jax.files.places import place
from discipline_jax.models.heads import ClassifierConfig
from discipline_jax.models.initialise import INITS, SubTable
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.programs.model import DTYPES, Model, resolve_model
from discipline_jax.programs.parts import Parts, draw_parts
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.cache import cached
from discipline_jax.tasks.class_weights import class_weights
from discipline_jax.tasks.features import NUM_SPECIAL, Features, featurise
from discipline_jax.tasks.splits import Split
from discipline_jax.tasks.strands import CHOICES as STRANDS
from discipline_jax.tasks.strands import complements
from discipline_jax.tasks.token_maps import KINDS, choose_kind, make_map
from discipline_jax.training.batches import epoch_steps, round_up
from discipline_jax.training.optimizers import OPTIMIZERS, PARAMETERS, warn_of_long_warmup

# Fields of `task` that leave the features as they are.
_OF_SPLITS = ("train_fraction", "standardise", "group_identity")
# Fewer validation samples than this cannot tell one evaluation from another: their 95% interval is 28 points wide.
_FEW_SAMPLES = 50


@dataclasses.dataclass(frozen=True)
class Plan:
  """Everything that a run needs except weights and devices.

  Attributes:
    config: the config that the plan was made from.
    task: the data set and the answer that it asks for.
    features: the data set's arrays.
    max_length: longest input in tokens.
    lengths: lengths of the samples, rounded up to the lengths that are compiled.
    seeds, sub_tables: one for each replica.
    parts: the split of each replica, and what is known of it.
    model: the model, before its weights are read.
    token_map: the kind of token map; never `auto`.
    token_map_reason: why `auto` chose it; None if the config names the kind.
    scales: one for each replica, see `Answer.scale`; empty if values are not standardised.
    complement: see `tasks.strands.complements`; None if one strand is read.
    class_weights: how much the loss of a sample of each class counts, for each replica; None: all alike.
  """

  config: ConfigDict
  task: Task
  features: Features
  max_length: int
  lengths: np.ndarray
  seeds: list[int]
  parts: Parts
  sub_tables: list[SubTable]
  model: Model
  token_map: str
  token_map_reason: str | None
  scales: list[dict[str, np.float32]]
  complement: Int32[np.ndarray, " symbols"] | None
  class_weights: Float32[np.ndarray, "replicas classes"] | None

  @property
  def splits(self) -> list[Split]:
    """The split of each replica."""
    return self.parts.splits

  @property
  def num_steps(self) -> int:
    """The number of updates."""
    train = self.config.train
    return train.steps or train.epochs * epoch_steps(len(self.splits[0]["train"]), train.batch_size)

  @property
  def trained_config(self) -> ClassifierConfig:
    """The sizes of the model that is trained: its embedding table has only the rows that the task can reach."""
    return dataclasses.replace(self.model.config, vocab_size=len(self.sub_tables[0].rows))

  @property
  def averages_strands(self) -> bool:
    """Tells whether outputs are the mean of those for both strands of DNA."""
    return self.config.task.reverse_complement == "average"


def make_plan(config: ConfigDict, *, download: bool = False) -> Plan:
  """Reads the data and resolves the rest; raises UserError for anything that cannot run.

  Args:
    config: see `defaults.finetune`.
    download: first download the missing files of the task that are public.
  """
  _check(config)
  folder = tasks.data_directory(config)
  if download:
    tasks.fetch(config.task.name, folder, config.task)
  task = tasks.get(config.task.name, folder, config.task)
  strands = config.task.reverse_complement
  complement = None if strands == "off" else complements(task, strands)
  model = resolve_model(config, task)
  max_length = _max_length(config, task, model)
  features = cached(
    place(config.cache_dir) / "features",
    task.files,
    # All samples are encoded, whatever share of them is trained on.
    [_encoding(config.task), max_length, model.vocabulary.fingerprint()],
    lambda: featurise(task, model.vocabulary, max_length),
  )
  seeds = [config.seed + replica for replica in range(config.replicas)]
  parts = draw_parts(config, task, features, seeds, complement)
  splits = parts.splits
  kind, reason = _token_map_kind(config, task, model)
  num_train = len(splits[0]["train"])
  if config.train.batch_size > num_train:
    raise UserError(
      f"train.batch_size = {config.train.batch_size} is larger than the training set of {num_train} samples; lower it"
    )
  known = [_known_ids(task, features, split, model, complement) for split in splits]
  plan = Plan(
    config=config,
    task=task,
    features=features,
    max_length=max_length,
    lengths=round_up(features.lengths),
    seeds=seeds,
    parts=parts,
    sub_tables=[
      _sub_table(config, kind, model.vocabulary, ids, replica) for replica, ids in enumerate(known)
    ],
    model=model,
    token_map=kind,
    token_map_reason=reason,
    scales=[_scale(task, features, split) if config.task.standardise else {} for split in splits],
    complement=complement,
    class_weights=class_weights(config.train.class_weights, task, features.targets, splits),
  )
  _warn(plan)
  return plan


def _encoding(task: ConfigDict) -> dict[str, object]:
  """Returns the fields of `task` that decide the features, in whose name they are kept."""
  fields = task.to_dict() | dict.fromkeys(_OF_SPLITS)
  # The alphabet of `custom` has the symbols of both strands. Without it, names are those from before the field was.
  if task.reverse_complement == "off":
    fields.pop("reverse_complement")
  return fields


def _max_length(config: ConfigDict, task: Task, model: Model) -> int:
  """Returns the longest input in tokens; raises UserError if the model cannot take it."""
  max_length = config.task.max_length
  if max_length is None:
    max_length = task.max_length or model.config.max_length
  if not 3 <= max_length <= model.config.max_length:
    raise UserError(
      f"task.max_length = {max_length} is not from 3 to the {model.config.max_length} positions that the model has;"
      " set --config.task.max_length"
    )
  return max_length


def check_training(config: ConfigDict) -> None:
  """Raises UserError for fields out of range that fine-tuning and pre-training share."""
  # A comparison sets it only when it starts.
  if config.eval.every_steps is None:
    raise UserError(
      "eval.every_steps is not set; set --config.eval.every_steps, the updates between evaluations"
    )
  command_line.at_least(
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
  command_line.at_least(
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
  if config.train.learning_rate == 0:
    raise UserError(
      f"train.learning_rate = {config.train.learning_rate} trains nothing; set --config.train.learning_rate above 0"
    )
  command_line.rates(config, ("model.dropout", "model.attention_dropout"))
  command_line.one_of(
    config, {"model.init": INITS, "model.dtype": DTYPES, "train.optimizer": OPTIMIZERS}
  )


def _check(config: ConfigDict) -> None:
  check_training(config)
  command_line.at_least(config, 1, ("replicas", "train.epochs"))
  command_line.at_least(config, 0, ("token_map.seed",))
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
  if config.train.grad_accumulation > config.train.batch_size:
    raise UserError(
      f"train.grad_accumulation = {config.train.grad_accumulation} parts of {config.train.batch_size} samples; lower it"
    )
  command_line.one_of(
    config,
    {
      "eval.select": ("best", "last"),
      "token_map.kind": ("auto", *KINDS),
      "train.parameters": PARAMETERS,
      "task.reverse_complement": STRANDS,
    },
  )


def _scale(task: Task, features: Features, split: Split) -> dict[str, np.float32]:
  return task.answer.scale(
    {name: target[split["train"]] for name, target in features.targets.items()}
  )


def _warn(plan: Plan) -> None:
  """Warns if the best weights are chosen on few samples, or if warm-up never ends."""
  warn_of_long_warmup(plan.config.train, plan.num_steps)
  config = plan.config.eval
  samples = plan.features.num_sequences(plan.splits[0]["validation"])
  if config.max_examples != -1:
    samples = min(samples, config.max_examples)
  if config.select == "best" and samples < _FEW_SAMPLES and plan.num_steps > config.every_steps:
    logging.warning(
      "the best weights are chosen on %d validation samples, which is mostly chance; give at least %d, or set"
      " --config.eval.select=last",
      samples,
      _FEW_SAMPLES,
    )


def _known_ids(
  task: Task,
  features: Features,
  split: Split,
  model: Model,
  complement: np.ndarray | None,
) -> np.ndarray:
  """Returns the token id of each symbol: the unknown token's for symbols of an open alphabet that training lacks."""
  if task.alphabet is None or not task.alphabet.is_open:
    return features.symbol_ids
  seen = np.bincount(features.symbols[split["train"]].ravel(), minlength=len(features.symbol_ids))
  known = seen > 0
  if complement is not None:  # training reads both strands
    known |= known[complement]
  known[:NUM_SPECIAL] = True
  for part, samples in split.items():
    symbols = features.each_symbol_once(samples)
    others, total = int((~known[symbols]).sum()), int((symbols >= NUM_SPECIAL).sum())
    if 2 * others > total:
      raise UserError(
        f"{others} of {total} symbols of the {part} part do not occur in training, so a score on it would say nothing;"
        " check what --config.task.symbols takes for one symbol, or give more training samples"
      )
    if others:
      logging.warning("%d symbols of the %s part do not occur in training", others, part)
  return np.where(known, features.symbol_ids, model.vocabulary.unk_id)


def _token_map_kind(config: ConfigDict, task: Task, model: Model) -> tuple[str, str | None]:
  """Returns the kind of token map, and if `auto` chose it the reason."""
  given, alphabet = config.token_map.kind, task.alphabet
  may_scramble = (
    given == "random"
    and alphabet is not None
    and model.checkpoint is not None
    and config.model.init == "pretrained"
  )
  if given != "auto" and not may_scramble:
    return given, None
  if alphabet is not None and alphabet.ids is not None:
    chosen, reason = "random", "the task's symbols have ids of their own"
  else:
    chosen, reason = choose_kind(model.vocabulary, None if alphabet is None else alphabet.symbols)
  if given == "auto":
    return chosen, reason
  if chosen == "identity":
    logging.warning(
      "token_map.kind = 'random' exchanges the symbols of a model of the task's own discipline (%s);"
      " set --config.token_map.kind=identity to keep them",
      reason,
    )
  return given, None


def token_map(
  config: ConfigDict, kind: str, vocabulary: Vocabulary, symbol_ids: np.ndarray, replica: int
) -> np.ndarray:
  """Returns the token map of a replica; `kind` is never `auto`, and `symbol_ids` come from `Features`."""
  first_seed = config.seed if config.token_map.seed is None else config.token_map.seed
  return make_map(
    kind,
    vocabulary,
    symbol_ids[NUM_SPECIAL:],
    shift=config.token_map.shift,
    seed=first_seed + replica,
    path=config.token_map.path,
    keep_special=config.token_map.keep_special,
  )


def _sub_table(
  config: ConfigDict, kind: str, vocabulary: Vocabulary, symbol_ids: np.ndarray, replica: int
) -> SubTable:
  rows = token_map(config, kind, vocabulary, symbol_ids, replica)[symbol_ids]
  if config.train.weight_decay:  # it also moves the rows that no input reads
    return SubTable.whole(rows, len(vocabulary.tokens))
  return SubTable.reachable(rows)
