"""Uses the model of a finished fine-tuning on a new table of sequences."""

import csv
import dataclasses
import pathlib
from collections.abc import Callable, Iterator

import jax
import numpy as np
from absl import logging
from ml_collections import ConfigDict

from discipline_jax import command_line, tasks
from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import SubTable, word_embeddings
from discipline_jax.programs.evaluation import compute_outputs, place_samples
from discipline_jax.programs.finetuning_plan import token_map
from discipline_jax.programs.model import Model, resolve_model
from discipline_jax.runs.check_inputs import check_model
from discipline_jax.runs.saved import Saved, read_model
from discipline_jax.tasks.answer import Answer, Layout
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.features import NUM_SPECIAL, Features, featurise
from discipline_jax.tasks.positions import PositionAnswer
from discipline_jax.tasks.readers.tables import json_text
from discipline_jax.tasks.unlabelled import read_unlabelled
from discipline_jax.tasks.windows import mean_over_windows
from discipline_jax.training.samples import Batch, outputs_of
from discipline_jax.training.sharding import mesh_of, platform_of, put, replicated, state_shardings
from discipline_jax.training.update import make_eval_step

# Of answers about positions: a line for each position, or one for each sequence.
_FORMATS = ("long", "string")


def predict(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Writes a CSV file with the predictions for each row of `task.path`, and the line of the row there.

  If the run has several replicas, the one that is best on validation predicts. With the run's `eval.batch_size`, on the
  same kind of device, outputs equal the run's own evaluation. They are equal to the bit if replicas were evaluated one
  by one, as on CPU. A row of music is one segment of up to 128 pitches; counting the votes of a piece is left to the
  caller.

  Args:
    config: `task.path` and its format, `predict`, `eval.batch_size` and `mesh` are taken from it; everything
      else is the run's.
    workdir: workdir of the finished run.
    dry_run: only say what would run.

  Raises:
    UserError: no finished run, or a table that its task cannot read, with file and line.
  """
  saved = read_model(workdir)
  # An alphabet's inputs need no rows but the trained ones.
  check_model(saved, workdir, weights=saved.task.alphabet is None)
  command_line.at_least(config, 1, ("eval.batch_size",))
  source, output = _files(config)
  has_symbols = tasks.takes(saved.task.name, "symbols")
  columns, lines_of = _form(saved.task.answer, config)
  keep = _kept_columns(config.predict.keep_columns, columns)
  rows, examples = read_unlabelled(
    source,
    saved.task,
    config.task,
    trained=saved.config.task if has_symbols else None,
    pairs=saved.inputs.pairs,
    keep=keep,
  )
  replica = saved.best
  summary = f"{len(examples)} rows of {source} by {saved.describe(replica)} of {workdir}"
  if dry_run:
    print(summary)
    return
  logging.info("%s", summary)
  outputs, layout = _outputs(saved, examples, replica, config)
  with whole_file(output, text=True) as file:
    writer = csv.writer(file)
    writer.writerow(["line", *keep, *columns])
    for row, lines in zip(rows, lines_of(outputs, layout), strict=True):
      kept = (row.place.rpartition(":")[2], *map(json_text, row.extra))
      writer.writerows([*kept, *line] for line in lines)
  print(f"{summary}: {output}")


def _form(answer: Answer, config: ConfigDict) -> tuple[list[str], Callable[..., Iterator]]:
  """Returns the columns of predictions, and the function that makes the lines of each sample.

  Raises:
    UserError: `predict.format` is unknown, or not for this kind of answer.
  """
  command_line.one_of(config, {"predict.format": _FORMATS})
  if config.predict.format == "long":
    return answer.columns, answer.rows
  if not isinstance(answer, PositionAnswer):
    raise UserError(
      f"predict.format = {config.predict.format!r} is for answers about each position, and this run's are of kind"
      f" {answer.kind}, with a line for each row; set --config.predict.format=long"
    )
  return list(answer.text_columns), answer.texts


def _kept_columns(names: str | None, own: list[str]) -> list[str]:
  """Returns the columns that `predict.keep_columns` names; raises UserError if the output has such a column already."""
  columns = [] if names is None else [name.strip() for name in names.split(",")]
  for column in columns:
    if columns.count(column) > 1:
      raise UserError(
        f"predict.keep_columns = {names!r} names the column {column!r} twice; name it once"
      )
    if not column or column in ("line", *own):
      raise UserError(
        f"predict.keep_columns = {names!r}: a column {column!r} cannot be written beside"
        f" {', '.join(['line', *own])[:200]}; leave it out, or rename it in the table"
      )
  return columns


def _files(config: ConfigDict) -> tuple[pathlib.Path, pathlib.Path]:
  """Returns the table to read and the file to write; raises UserError if they will not do."""
  source, output = config.task.path, config.predict.output
  if source is None or output is None:
    raise UserError(
      "mode = predict needs --config.task.path, a table, and --config.predict.output, a .csv file"
    )
  path = pathlib.Path(output).expanduser()
  if path.suffix != ".csv" or not path.absolute().parent.is_dir():
    raise UserError(
      f"predict.output = {output!r} is not a .csv file in a folder that exists; set --config.predict.output"
    )
  if path.resolve() == pathlib.Path(source).expanduser().resolve():
    raise UserError(
      f"predict.output = {output!r} is task.path itself, which it would replace; set --config.predict.output"
    )
  return pathlib.Path(source).expanduser(), path


def _outputs(
  saved: Saved, examples: list[Example], replica: int, config: ConfigDict
) -> tuple[np.ndarray, Layout]:
  """Returns the model's outputs, one row [...] for each sample or window, and where their symbols stand.

  If there is one answer for a whole sequence, the outputs of its windows are averaged.
  """
  task = dataclasses.replace(saved.task, read=lambda: {"all": examples})
  model = resolve_model(saved.config, task)
  features, lengths = _padded(featurise(task, model.vocabulary, saved.inputs.max_length), saved)
  params, lookup = params_of(saved, replica, model, features.symbol_ids)
  _check_unseen(features, task.alphabet is not None and task.alphabet.is_open, lookup)
  mesh = mesh_of(config)
  params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
  params = put(params, state_shardings(mesh, params))
  compact = dataclasses.replace(model.config, vocab_size=word_embeddings(params)["weight"].shape[1])
  forward = classifier_function(compact, task.answer.head, model.dtype, platform_of(mesh))
  eval_step = make_eval_step(outputs_of(forward), mesh)
  whole = replicated(mesh)
  samples, lookups = place_samples(mesh, features), put(lookup[None], whole)
  seeds = put(np.array([saved.inputs.seeds[replica]], np.int32), whole)
  with progress.bar(total=len(lengths), unit="row", disable=None) as bar:
    outputs = compute_outputs(
      lambda rows, length: eval_step(params, samples, Batch(rows, lookups, seeds), length),
      mesh,
      np.arange(len(lengths), dtype=np.int32)[None],
      lengths,
      config.eval.batch_size,
      progress=bar.update,
    )
  layout = Layout(features.lengths, int(task.add_special_tokens), features.windows)
  if features.windows is None or task.answer.of_positions:
    return outputs[0], layout
  return mean_over_windows(outputs[0], features.windows.owners), layout


def _padded(features: Features, saved: Saved) -> tuple[Features, np.ndarray]:
  """Pads samples to the lengths that the run compiled, and returns the length of each."""
  known, longest = saved.inputs.lengths, saved.inputs.max_length
  edges = np.append(known[known < longest], longest)
  lengths = edges[np.searchsorted(edges, features.lengths)]
  padding = ((0, 0), (0, int(lengths.max()) - features.symbols.shape[1]))
  segments = features.segments
  padded = dataclasses.replace(
    features,
    symbols=np.pad(features.symbols, padding),
    segments=None if segments is None else np.pad(segments, padding),
  )
  return padded, lengths


def params_of(
  saved: Saved, replica: int, model: Model, symbol_ids: np.ndarray
) -> tuple[dict, np.ndarray]:
  """Returns a replica's parameters, and for each symbol of the new samples the place of its row in their table."""
  if saved.task.alphabet is not None:
    params, _, lookup = saved.weights(saved.inputs.seeds[replica])
    return params, lookup
  # A new text may have tokens that training did not see.
  params = saved.whole_params(replica, model.checkpoint, model.config)
  # Some token maps depend on which tokens occurred in the run.
  table_of_ids = token_map(
    saved.config, saved.result["token_map"], model.vocabulary, saved.inputs.symbol_ids, replica
  )
  sub_table = SubTable.reachable(table_of_ids[symbol_ids])
  embeddings = word_embeddings(params)
  embeddings["weight"] = sub_table.cut(embeddings["weight"])
  return params, sub_table.lookup


def _check_unseen(features: Features, is_open: bool, lookup: np.ndarray) -> None:
  """Logs how many symbols of an open alphabet training did not see: they have the unknown token's row, the last.

  Raises:
    UserError: they are most symbols.
  """
  if not is_open:
    return
  symbols = features.symbols >= NUM_SPECIAL
  unseen = symbols & (lookup[features.symbols] == lookup[-1])
  if 2 * unseen.sum() > symbols.sum():
    raise UserError(
      f"{unseen.sum()} of {symbols.sum()} symbols do not occur in the training part of this replica, so its predictions"
      " would say nothing; check that the sequences are written as they were for training"
    )
  if unseen.any():
    logging.warning(
      "%d symbols in %d of %d rows do not occur in training",
      unseen.sum(),
      unseen.any(1).sum(),
      len(unseen),
    )
