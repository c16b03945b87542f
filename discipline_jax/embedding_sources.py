"""Finds the model whose hidden states are wanted: a checkpoint, or the model of a finished fine-tuning."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection
from functools import partial

import numpy as np
from absl import logging
from ml_collections import ConfigDict

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.files.places import Path, place
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.heads import Classifier, Head, TokenClassifier
from discipline_jax.models.initialise import initial_params
from discipline_jax.models.weights import open_weights
from discipline_jax.programs.embedding import Network
from discipline_jax.programs.finetuning_plan import token_map
from discipline_jax.programs.model import Model, resolve_model
from discipline_jax.runs.check_inputs import check_model
from discipline_jax.runs.saved import Saved, read_model
from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet
from discipline_jax.tasks.features import CLS, NUM_SPECIAL, SEP
from discipline_jax.tasks.streamed import (
  UNKNOWN_TOKENS,
  Inputs,
  Scan,
  check_unknown,
  symbol_inputs,
  text_inputs,
)
from discipline_jax.tasks.symbols import TEXT

_TASK = pathlib.PurePath("model", "task.json")  # in the workdir of a finished fine-tuning
_REMEDIES = {
  "upper": "add --config.task.case=upper, or write them in upper case",
  "lower": "write them in lower case",
  "mixed": "write them as they are in training",
}
_OF_SENTENCES = ".,;:!?()\"'\u201c\u201d\u2019"  # what stands at words without a blank
_IS_TEXT = f"if the rows are texts, set --config.task.symbols={TEXT}"
# What is wrong with symbols that a run or a checkpoint does not have, and what helps.
_UNSEEN = (
  "symbols do not occur in training",
  "check that sequences are written as they were for training, and task.sequence_column",
)
_NO_TOKENS = (
  "symbols are no tokens of the model",
  "check that sequences are written as the model has them, and task.symbols, task.case, task.sequence_column;"
  f" {_IS_TEXT}",
)
# How inputs are made, the function that reads the weights, and the symbols that training saw.
_OfRun = tuple[Inputs, Callable[[], dict], Collection[str]]


@dataclasses.dataclass(frozen=True)
class Source:
  """Holds a model, and how it reads a table.

  Attributes:
    name: the model in a few words, for messages.
    task: the task of the table; its `alphabet` is None if the rows are texts.
    trained: the block `task` of the config that says how sequences are written; None if the task has no such options.
    pairs: whether a sample is two sequences or texts.
    inputs: how the rows of the table become inputs of the model.
    network: the encoder.
    known: the symbols that training saw; empty if that is not known.
    what_is_unknown: what a warning says of what the model does not know, such as "symbols are no tokens of the model".
    remedy: what to do about it.
  """

  name: str
  task: Task
  trained: ConfigDict | None
  pairs: bool
  inputs: Inputs
  network: Network
  known: Collection[str]
  what_is_unknown: str
  remedy: str


def find_source(config: ConfigDict, workdir: Path) -> Source:
  """Returns the model of `model.checkpoint`, or that of the finished fine-tuning in `workdir`.

  Args:
    config: see `modes.embed`. Its `model.checkpoint` may also be the workdir of a finished fine-tuning.
    workdir: used only if it is the workdir of a finished fine-tuning.

  Raises:
    UserError: neither of them names a model, both do, or the model cannot be used here.
  """
  checkpoint = config.model.checkpoint
  if (workdir / _TASK).is_file():
    if checkpoint is not None:
      raise UserError(
        f"the run in {workdir} and model.checkpoint = {checkpoint!r} are two models; set --config.model.checkpoint=None"
        " for the run, or give another --workdir"
      )
    return _of_run(workdir)
  if checkpoint is None:
    raise UserError(
      f"no finished fine-tuning in {workdir}, and model.checkpoint is unset; give the --workdir of one, or set"
      " --config.model.checkpoint"
    )
  run = place(checkpoint)
  return _of_run(run) if (run / _TASK).is_file() else _of_checkpoint(config)


def _of_run(workdir: Path) -> Source:
  """Returns the replica of a run that is best on validation."""
  saved = read_model(workdir)
  is_text = saved.task.alphabet is None
  check_model(saved, workdir, weights=is_text)
  model = resolve_model(saved.config, saved.task)
  if not isinstance(model.config, ModelConfig):
    raise UserError(
      f"the run in {workdir} is of a {model.config.model_type}, which has no hidden states of tokens; give another"
      " run or checkpoint"
    )
  if saved.task.pairs and not is_text:
    raise UserError(
      f"the run in {workdir} is of pairs of sequences, and mode embed writes vectors of single ones; give another run"
      " or checkpoint"
    )
  inputs, params, known = _texts_of_run(saved, model) if is_text else _symbols_of_run(saved)
  return Source(
    f"{saved.describe(saved.best)} of {workdir}",
    saved.task,
    saved.config.task if tasks.takes(saved.task.name, "symbols") else None,
    saved.task.pairs,
    inputs,
    Network(model.config, saved.task.answer.head, model.dtype, params),
    known,
    *(UNKNOWN_TOKENS if is_text else _UNSEEN),
  )


def _texts_of_run(saved: Saved, model: Model) -> _OfRun:
  """Returns `_OfRun` for texts, with the whole embedding table."""
  # Some token maps depend on which tokens occurred in the run.
  rows = token_map(
    saved.config, saved.result["token_map"], model.vocabulary, saved.inputs.symbol_ids, saved.best
  )
  inputs = text_inputs(model.vocabulary, rows, saved.inputs.max_length)
  return inputs, partial(saved.whole_params, saved.best, model.checkpoint, model.config), ()


def _symbols_of_run(saved: Saved) -> _OfRun:
  """Returns `_OfRun` for sequences of symbols, with only their rows of the embedding table."""
  alphabet = saved.task.alphabet
  assert alphabet is not None
  params, _, lookup = saved.weights(saved.inputs.seeds[saved.best])
  places = lookup.tolist()
  rows = dict(zip(alphabet.symbols, places[NUM_SPECIAL:], strict=False))
  rows |= {alias: rows[symbol] for alias, symbol in alphabet.aliases.items()}
  # Of an open alphabet, the last number is that of all symbols that training did not see.
  unknown = places[-1] if alphabet.is_open else -1
  known = {symbol for symbol, row in rows.items() if row != unknown}
  inputs = symbol_inputs(
    lambda symbol: rows.get(symbol, unknown),
    (places[CLS], places[SEP]) if saved.task.add_special_tokens else None,
    saved.inputs.max_length,
    known.__contains__,
  )
  return inputs, lambda: params, known


def _of_checkpoint(config: ConfigDict) -> Source:
  """Returns the model of `model.checkpoint`; its tokens keep their own rows unless `token_map.kind` says otherwise.

  A symbol is read as the token that the model's tokenizer makes of it, or as the unknown token if it makes none or
  several. So the vector of a row does not depend on the other rows of the table.
  """
  is_own = config.task.name == "custom"
  # A table without labels asks for no answer, and its symbols are not known yet.
  alphabet = None if config.task.symbols == TEXT else Alphabet((), is_open=True)
  if alphabet is None and config.task.case != "as_is":
    raise UserError(
      f"task.case = {config.task.case!r} is for symbols, but task.symbols = {TEXT!r}; set --config.task.case=as_is"
    )
  task = (
    Task("custom", alphabet, Class(()), None, read=dict)
    if is_own
    else tasks.get(config.task.name, tasks.data_directory(config))
  )
  model = resolve_model(config, task)
  assert isinstance(model.config, ModelConfig)  # there is a checkpoint
  most, max_length = model.config.max_length, config.task.max_length
  if max_length is not None and not 3 <= max_length <= most:
    raise UserError(
      f"task.max_length = {max_length} is not from 3 to the {most} positions that the model has;"
      " set --config.task.max_length"
    )
  max_length = most if max_length is None else max_length
  kind = "identity" if config.token_map.kind == "auto" else config.token_map.kind
  if kind in ("frequent", "unused"):
    raise UserError(
      f"token_map.kind = {kind!r} depends on the symbols that occur, so the vectors of two tables cannot be compared;"
      " set --config.token_map.kind to another kind, such as identity"
    )
  rows = token_map(config, kind, model.vocabulary, np.zeros(NUM_SPECIAL, np.int32), 0)
  head = _head(config.embed.pooling, model)
  read = partial(
    initial_params,
    config.model.init,
    model.config,
    head,
    model.checkpoint,
    config.seed,
    pretrained_layers=config.model.pretrained_layers,
  )
  return Source(
    f"{config.model.checkpoint} ({model.config.summary}, {config.model.init}, token map {kind})",
    task,
    config.task if is_own else None,
    task.alphabet is None and "," in config.task.sequence_column,
    text_inputs(model.vocabulary, rows, max_length)
    if task.alphabet is None
    else _symbols_of_checkpoint(model, task.alphabet, rows, max_length),
    Network(model.config, head, model.dtype, read),
    (),
    *(UNKNOWN_TOKENS if task.alphabet is None else _NO_TOKENS),
  )


def _symbols_of_checkpoint(
  model: Model, alphabet: Alphabet, rows: np.ndarray, max_length: int
) -> Inputs:
  vocabulary = model.vocabulary
  given = dict(zip(alphabet.symbols, alphabet.ids or (), strict=False))

  @functools.cache
  def id_of(symbol: str) -> int:
    symbol = alphabet.aliases.get(symbol, symbol)
    return given[symbol] if given else vocabulary.symbol_id(symbol)

  return symbol_inputs(
    lambda symbol: int(rows[id_of(symbol)]),
    (int(rows[vocabulary.cls_id]), int(rows[vocabulary.sep_id])),
    max_length,
    lambda symbol: id_of(symbol) != vocabulary.unk_id,
  )


def _head(pooling: str, model: Model) -> Head:
  """Returns a head that has a pooler only if it is read; raises UserError if the checkpoint lacks it then."""
  if pooling != "pooled":
    return TokenClassifier(1)
  assert isinstance(model.config, ModelConfig)
  assert model.checkpoint is not None
  reads_pooler = model.config.family.has_pooler and model.config.family.classifier_act is None
  if reads_pooler and not any("pooler." in name for name in open_weights(model.checkpoint)):
    raise UserError(
      f"embed.pooling = 'pooled', but the checkpoint has no pooler, {model.checkpoint}; set --config.embed.pooling=mean"
    )
  return Classifier(1)


def check_table(found: Scan, source: Source, path: pathlib.Path) -> None:
  """Warns of rows that are cut, and of symbols that are read as the unknown token.

  Args:
    found: what a first reading of the table found.
    source: the model.
    path: the table, for messages.

  Raises:
    UserError: most symbols are unknown, or the words of texts are taken for symbols.
  """
  if found.cut:
    logging.warning(
      "%d of %d rows of %s are longer than the model takes and are cut at the end",
      found.cut,
      found.rows,
      path,
    )
  if found.first_unknown is None:
    return
  is_of_symbols = source.inputs.is_known is not None
  if is_of_symbols and not source.known and _are_words_of_texts(found, source):
    raise UserError(
      f"{found.unknown.total()} of {found.num_symbols} words are no tokens of the model ({found.shown}), many only for"
      f" the punctuation at them, {found.first_unknown}; {_IS_TEXT}, else write blanks around the punctuation"
    )
  check_unknown(found, source.known, _REMEDIES | {"other": source.remedy}, source.what_is_unknown)


def _are_words_of_texts(found: Scan, source: Source) -> bool:
  """Returns whether a fourth or more of the unknown symbols are tokens of the model once punctuation is taken off."""
  is_known = source.inputs.is_known
  assert is_known is not None  # else nothing would be unknown
  number = 0
  for word, count in found.unknown.items():
    bare = word.strip(_OF_SENTENCES)
    number += count * (len(bare) > 1 and bare != word and is_known(bare))
  return 4 * number >= found.unknown.total()
