"""Exports the model of a finished fine-tuning in Hugging Face's format, with a tokenizer for its sequences."""

import dataclasses
import json
from collections.abc import Mapping

import jax
import numpy as np
from absl import logging
from jaxtyping import Float
from ml_collections import ConfigDict
from tokenizers import Tokenizer

from discipline_jax import models, tasks
from discipline_jax.errors import UserError
from discipline_jax.files.copies import local
from discipline_jax.files.places import Path, place
from discipline_jax.models.functional import model_function
from discipline_jax.models.initialise import word_embeddings
from discipline_jax.models.symbol_tokenizer import symbol_tokenizer, tokenizer_files
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.programs.finetuning_plan import token_map
from discipline_jax.programs.model import Model, resolve_model
from discipline_jax.runs.check_inputs import check_model
from discipline_jax.runs.saved import Saved, read_model
from discipline_jax.tasks.features import NUM_SPECIAL

_ONE_STRAND = (
  "note: the run takes the mean of the outputs for both strands, but the model reads the one that it is given; take the"
  " mean of its outputs for a sequence and for its reverse complement"
)


@dataclasses.dataclass(frozen=True)
class _Inputs:
  """Holds what makes the inputs of an exported model.

  Attributes:
    table: its embedding table; each token's row is at the token's id.
    ids: the id of each special token and symbol; for text, the tokenizer's ids themselves.
    special: the special token of each role.
    tokenizer: the tokenizer that gives these ids.
  """

  table: Float[np.ndarray, "vocab hidden"]
  ids: dict[str, int] | list[int]
  special: Mapping[str, str]
  tokenizer: Tokenizer


def export(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Writes a directory that transformers opens: `config.json`, `model.safetensors`, tokenizer, and `input_ids.json`.

  If the run has several replicas, the one that is best on validation is exported. The token map is worked into the
  embedding table: a token keeps its id, and has the row that the run gave it. So the tokenizer needs no map, and no
  symbol has the id of padding. For symbols, the tokenizer is made here; for text, it is the model's.

  Args:
    config: `export.output` is taken from it; everything else is the run's.
    workdir: workdir of the finished run.
    dry_run: only say what would be written.

  Raises:
    UserError: no finished run, or an output that cannot be written.
  """
  saved = read_model(workdir)
  check_model(saved, workdir, weights=True)
  if config.export.output is None:
    raise UserError("mode = export needs --config.export.output, a directory")
  output = place(config.export.output)
  replica, answer = saved.best, saved.task.answer
  summary = f"{output}: {saved.describe(replica)} of {workdir}"
  model = resolve_model(saved.config, saved.task)
  _check_output(output, workdir, model.checkpoint)
  if not isinstance(model.config, models.ModelConfig):
    raise UserError(
      f"Hugging Face's format has no {model.config.model_type}; use the run with --config.mode=predict"
    )
  if model.config.is_decoder and isinstance(answer.head, models.Classifier):
    raise UserError(
      "the model reads from left to right and answers at the last token, but transformers' classifier at the first; use"
      " the run with --config.mode=predict"
    )
  if (output / "config.json").exists():
    summary += ", in place of the model that is there"
  if dry_run:
    print(f"would write {summary}")
    return
  params = saved.whole_params(replica, model.checkpoint, model.config)
  of_run = _of_text if saved.task.alphabet is None else _of_symbols
  inputs = of_run(saved, replica, model, word_embeddings(params)["weight"])
  word_embeddings(params)["weight"] = inputs.table
  model_config = _with_padding(params, model.config, model.vocabulary.pad_id)
  module = model_function(model_config, answer.head)(jax.tree.map(jax.numpy.asarray, params))
  files = tokenizer_files(
    inputs.tokenizer,
    inputs.special,
    max_length=saved.inputs.max_length,
    has_segments=model_config.type_vocab_size > 1,
  )
  files["input_ids.json"] = json.dumps(inputs.ids, ensure_ascii=False) + "\n"
  problem = answer.problem_type
  models.save(module, output, labels=answer.labels, problem_type=problem, tokenizer=files)
  logging.info("%s", summary)
  print(f"wrote {summary}")
  if saved.config.task.reverse_complement == "average":
    print(_ONE_STRAND)


def _check_output(output: Path, workdir: Path, checkpoint: Path | None) -> None:
  """Raises UserError if the output would replace files of the run, or of the checkpoint that it began with."""
  for taken, what in (
    (workdir, "the run's own workdir"),
    (checkpoint, "the run's model.checkpoint"),
  ):
    if taken is not None and local(output).resolve() == local(taken).resolve():
      raise UserError(
        f"export.output = {str(output)!r} is {what}, whose files it would replace; set --config.export.output to"
        " another folder"
      )


def _of_text(saved: Saved, replica: int, model: Model, table: np.ndarray) -> _Inputs:
  """Returns the table in which each token of a text has the row that the token map gives it."""
  vocabulary = model.vocabulary
  assert vocabulary.tokenizer is not None  # the run has used it
  rows = token_map(
    saved.config, saved.result["token_map"], vocabulary, saved.inputs.symbol_ids, replica
  )
  table = np.concatenate([table[rows], table[len(rows) :]])
  ids = np.arange(len(rows)).tolist()
  return _Inputs(table, ids, vocabulary.special, vocabulary.tokenizer)


def _of_symbols(saved: Saved, replica: int, model: Model, table: np.ndarray) -> _Inputs:
  """Returns the table in which each symbol has the row that training gave it, and a tokenizer of the symbols."""
  alphabet = saved.task.alphabet
  assert alphabet is not None
  special = _special_names(model.vocabulary, saved)
  ids, rows = _symbol_ids(saved, replica, model.vocabulary, special, len(table))
  whole = np.pad(table, ((0, max(0, max(rows) + 1 - len(table))), (0, 0)))
  whole[list(rows)] = table[list(rows.values())]
  has_options = tasks.takes(saved.task.name, "symbols")
  form = saved.config.task
  kind = form.symbols if has_options else alphabet.spelling
  tokenizer = symbol_tokenizer(
    {special["mask"]: model.vocabulary.mask_id, **ids},
    special,
    len(whole),
    kind=kind,
    k=form.k,
    # Tasks with an alphabet of their own read letters in any case.
    is_upper=form.case == "upper" if has_options else kind == "characters",
    aliases=alphabet.aliases,
    max_length=None if saved.task.pairs else saved.inputs.max_length,
    add_special_tokens=saved.task.add_special_tokens,
  )
  return _Inputs(whole, ids, special, tokenizer)


def _special_names(vocabulary: Vocabulary, saved: Saved) -> dict[str, str]:
  """Returns the special tokens; one that is spelt like a symbol gets further brackets.

  PLUS-TFM's unknown token is the symbol X itself.
  """
  alphabet = saved.task.alphabet
  assert alphabet is not None
  ids = dict(zip(alphabet.symbols, saved.inputs.symbol_ids[NUM_SPECIAL:].tolist(), strict=False))
  special = {}
  for role, name in vocabulary.special.items():
    while name in ids and not (role == "unk" and ids[name] == vocabulary.unk_id):
      name = f"[{name}]"
    special[role] = name
  return special


def _symbol_ids(
  saved: Saved, replica: int, vocabulary: Vocabulary, special: Mapping[str, str], size: int
) -> tuple[dict[str, int], dict[int, int]]:
  """Returns the id of each special token and symbol in the exported table, and for these ids the rows of the run.

  Symbols keep the ids of the run, with two exceptions. Symbols that training did not see get the id of the unknown
  token, whose row they had. A symbol that shares its id with another symbol or a special token gets a new id, behind
  the run's table.

  Args:
    saved, replica, vocabulary: the run's model, the replica to export, and the vocabulary.
    special: the special token of each role.
    size: number of rows of the run's table.
  """
  alphabet = saved.task.alphabet
  assert alphabet is not None
  _, numbers, lookup = saved.weights(saved.inputs.seeds[replica])
  old_ids, old_rows = saved.inputs.symbol_ids.tolist(), numbers[lookup].tolist()
  ids = dict(zip((special[role] for role in ("pad", "cls", "sep")), old_ids, strict=False))
  rows = dict(zip(old_ids[:NUM_SPECIAL], old_rows, strict=False))
  unknown_row = None
  if alphabet.is_open:
    unknown_row = rows[vocabulary.unk_id] = old_rows[-1]
  taken = {*rows, vocabulary.mask_id, vocabulary.unk_id}
  for symbol, i, row in zip(
    alphabet.symbols, old_ids[NUM_SPECIAL:], old_rows[NUM_SPECIAL:], strict=False
  ):
    if i == vocabulary.unk_id or row == unknown_row:
      i = vocabulary.unk_id
    elif i in taken:
      i = max(size, max(taken) + 1)
    ids[symbol], rows[i] = i, row
    taken.add(i)
  ids.setdefault(special["unk"], vocabulary.unk_id)
  return ids, rows


def _with_padding(params: dict, config: models.ModelConfig, pad_id: int) -> models.ModelConfig:
  """Returns the sizes with the padding token that the tokenizer has.

  RoBERTa's positions are counted from the id of padding, so the rows of its position table are moved in `params`.
  """
  shift = pad_id - config.pad_token_id
  config = dataclasses.replace(
    config, pad_token_id=pad_id, vocab_size=len(word_embeddings(params)["weight"])
  )
  if shift == 0 or not config.family.counts_padding:
    return config
  positions = params["base_model"]["embeddings"]["position_embeddings"]
  table = np.asarray(positions["weight"])
  before = np.zeros((max(0, shift), table.shape[1]), table.dtype)
  positions["weight"] = np.concatenate([before, table[max(0, -shift) :]])
  return dataclasses.replace(config, max_position_embeddings=len(positions["weight"]))
