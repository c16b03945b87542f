"""Uses the model of a finished fine-tuning on a new table of sequences."""

import csv
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import numpy as np
from absl import logging
from ml_collections import ConfigDict

from discipline_jax import command_line, tasks
from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import SubTable, word_embeddings
from discipline_jax.programs.evaluation import compute_outputs, place_samples
from discipline_jax.programs.finetuning_plan import token_map
from discipline_jax.programs.model import Model, resolve_model
from discipline_jax.runs.check_inputs import check_model
from discipline_jax.runs.saved import Saved, read_model
from discipline_jax.table_files import check_files, check_replaced, kept_columns
from discipline_jax.tasks.answer import Answer, Layout
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.features import NUM_SPECIAL, Features, featurise
from discipline_jax.tasks.positions import PositionAnswer
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.readers.tables import json_text
from discipline_jax.tasks.strands import complements
from discipline_jax.tasks.streamed import Inputs, text_inputs
from discipline_jax.tasks.unlabelled import read_unlabelled
from discipline_jax.tasks.windows import mean_over_windows
from discipline_jax.training.samples import Batch, outputs_of
from discipline_jax.training.sharding import mesh_of, platform_of, put, replicated, state_shardings
from discipline_jax.training.update import make_eval_step

# Columns: the deviation over the replicas, and the symbol at a position.
_SPREAD, _SYMBOL = "spread", "symbol"
# Of answers about positions: a line for each position, or one for each sequence.
_FORMATS = ("long", "string")


def predict(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Writes a CSV file with the predictions for each row of `task.path`, and the line of the row there.

  If the run has several replicas, the one that is best on validation predicts; with `predict.replicas` = `all`, a row
  gets the mean of all their probabilities or values, and the standard deviation of what is predicted. With the run's
  `eval.batch_size`, on the same kind of device, outputs equal the run's own evaluation. They are equal to the bit if
  replicas were evaluated one by one, as on CPU. A row of music is one segment of up to 128 pitches; counting the votes
  of a piece is left to the caller.

  Args:
    config: `task.path` and its format, `predict`, `eval.batch_size` and `mesh` are taken from it, and `task.long` and
      `task.stride` if they are set; everything else is the run's.
    workdir: workdir of the finished run.
    dry_run: only say what would run.

  Raises:
    UserError: no finished run, a table that its task cannot read, with file and line, or an output that would replace
      another file.
  """
  saved = _with_long(read_model(workdir), config)
  # An alphabet's inputs need no rows but the trained ones.
  check_model(saved, workdir, weights=saved.task.alphabet is None)
  command_line.at_least(config, 1, ("eval.batch_size",))
  source, output = check_files(config, "predict", (".csv",))
  check_replaced(output, "predict", _is_own)
  replicas = _replicas(saved, config)
  several = len(replicas) > 1
  own_columns, lines_of = _form(saved.task.answer, config)
  columns = [*own_columns, *([_SPREAD] if several else [])]
  keep = kept_columns(config, "predict", ["line", *columns])
  model = resolve_model(saved.config, saved.task)
  rows, symbols, examples = read_unlabelled(
    source,
    saved.task,
    config.task,
    trained=saved.config.task if tasks.takes(saved.task.name, "symbols") else None,
    pairs=saved.task.pairs,
    keep=[Column(name, "predict.keep_columns") for name in keep],
    inputs=_text_inputs(saved, model),
  )
  who = f"the mean of the {len(replicas)} replicas" if several else saved.describe(replicas[0])
  summary = f"predictions for {len(examples)} rows of {source} by {who} of {workdir}"
  if dry_run:
    print(f"would write {output}: {summary}")
    return
  logging.info("%s", summary)
  each, layout = _outputs(saved, model, examples, replicas, config)
  together = saved.task.answer.combined(each) if several else None
  outputs, spreads = (each[0], None) if together is None else together
  with whole_file(output, text=True) as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["line", *keep, *columns])
    every = zip(rows, symbols, lines_of(outputs, layout), strict=True)
    for i, (row, own_symbols, lines) in enumerate(every):
      kept = (row.place.rpartition(":")[2], *map(json_text, row.extra))
      spread = [] if spreads is None else [float(spreads[i])]
      if _SYMBOL in own_columns:
        lines = _with_symbols(lines, own_symbols)
      writer.writerows([*kept, *line, *spread] for line in lines)
  print(f"wrote {output}: {summary}")


def _text_inputs(saved: Saved, model: Model) -> Inputs | None:
  """Returns how the run's model reads texts, so that unknown tokens can be counted; None for symbols."""
  if saved.task.alphabet is not None:
    return None
  rows = np.arange(len(model.vocabulary.tokens))
  return text_inputs(model.vocabulary, rows, saved.inputs.max_length)


def _with_long(saved: Saved, config: ConfigDict) -> Saved:
  """Returns the run, which reads long sequences as the config says, else as it was trained."""
  task, long, stride = saved.task, config.task.long, config.task.stride
  if not tasks.takes(task.name, "long"):
    if long == "windows" or stride is not None:
      raise UserError(
        f"a run of task {task.name} does not take task.long = {long!r} or task.stride = {stride}; set"
        " --config.task.long=cut --config.task.stride=None"
      )
    return saved
  if long is None and task.windows:
    long = "windows"
  if long == "windows" and stride is None:
    stride = task.stride
  return dataclasses.replace(saved, task=tasks.with_windows(task, long, stride))


def _replicas(saved: Saved, config: ConfigDict) -> list[int]:
  """Returns the numbers of the replicas that `predict.replicas` names; raises UserError if there is no mean of them."""
  command_line.one_of(config, {"predict.replicas": ("best", "all")})
  if config.predict.replicas == "best":
    return [saved.best]
  number, answer = len(saved.inputs.seeds), saved.task.answer
  if number == 1:
    raise UserError(
      "predict.replicas = 'all', but the run has one replica, so nothing is known of the spread of several; set"
      " --config.predict.replicas=best"
    )
  if type(answer).combined is Answer.combined:
    raise UserError(
      "predict.replicas = 'all' is for answers of one class or one value for each row, and this run's are of kind"
      f" {answer.kind}; set --config.predict.replicas=best"
    )
  return list(range(number))


def _form(answer: Answer, config: ConfigDict) -> tuple[list[str], Callable[..., Iterator]]:
  """Returns the columns of predictions, and the function that makes the lines of each sample.

  Raises:
    UserError: `predict.format` is unknown, or not for this kind of answer.
  """
  command_line.one_of(config, {"predict.format": _FORMATS})
  if config.predict.format == "long":
    place, *others = answer.columns
    return [place, *([_SYMBOL] if answer.of_positions else []), *others], answer.rows
  if not isinstance(answer, PositionAnswer):
    raise UserError(
      f"predict.format = {config.predict.format!r} is for answers about each position, and this run's are of kind"
      f" {answer.kind}, with a line for each row; set --config.predict.format=long"
    )
  return list(answer.text_columns), answer.texts


def _with_symbols(lines: Iterable[list], symbols: Sequence[str]) -> list[list]:
  """Puts the symbol behind the number of each position; what was cut off has no line."""
  return [[place, symbol, *cells] for (place, *cells), symbol in zip(lines, symbols, strict=False)]


def _is_own(path: Path) -> bool:
  """Returns whether a file begins as those of predictions do, or is empty."""
  with path.open("rb") as file:
    head = file.read(1 << 16).decode("utf-8", "replace")
  columns = next(csv.reader(head.splitlines()[:1]), [])
  return not head or (columns[:1] == ["line"] and "prediction" in columns)


def _outputs(
  saved: Saved,
  model: Model,
  examples: list[Example],
  replicas: Sequence[int],
  config: ConfigDict,
) -> tuple[np.ndarray, Layout]:
  """Returns the outputs [replicas, samples or windows, ...] of some replicas, and where their symbols stand.

  If there is one answer for a whole sequence, the outputs of its windows are averaged.
  """
  task = dataclasses.replace(saved.task, read=lambda: {"all": examples})
  features, lengths = _padded(featurise(task, model.vocabulary, saved.inputs.max_length), saved)
  is_open = task.alphabet is not None and task.alphabet.is_open
  mesh = mesh_of(config)
  platform, whole = platform_of(mesh), replicated(mesh)
  strands = saved.config.task.reverse_complement
  both = strands == "average"
  samples = place_samples(mesh, features, complements(task, strands) if both else None)
  rows = np.arange(len(lengths), dtype=np.int32)[None]

  @functools.cache  # all replicas share the program
  def program(table: int) -> Callable:
    compact = dataclasses.replace(model.config, vocab_size=table)
    forward = classifier_function(compact, task.answer.head, model.dtype, platform)
    return make_eval_step(outputs_of(forward, of_both_strands=both), mesh)

  def of_replica(replica: int, note: Callable[[int], object]) -> np.ndarray:
    params, lookup = params_of(saved, replica, model, features.symbol_ids)
    _check_unseen(features, is_open, lookup)
    params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
    params = put(params, state_shardings(mesh, params))
    eval_step = program(word_embeddings(params)["weight"].shape[1])
    lookups = put(lookup[None], whole)
    seeds = put(np.array([saved.inputs.seeds[replica]], np.int32), whole)
    outputs = compute_outputs(
      lambda rows, length: eval_step(params, samples, Batch(rows, lookups, seeds), length),
      mesh,
      rows,
      lengths,
      config.eval.batch_size,
      progress=note,
    )[0]
    if features.windows is None or task.answer.of_positions:
      return outputs
    return mean_over_windows(outputs, features.windows.owners)

  total = len(lengths) * len(replicas)
  unit = "row" if features.windows is None else "window"
  with progress.bar(total=total, unit=unit, disable=None) as bar:
    outputs = [of_replica(replica, bar.update) for replica in replicas]
  return np.stack(outputs), Layout(features.lengths, int(task.add_special_tokens), features.windows)


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
  numbers = features.each_symbol_once()
  symbols = numbers >= NUM_SPECIAL
  unseen = symbols & (lookup[numbers] == lookup[-1])
  if 2 * unseen.sum() > symbols.sum():
    raise UserError(
      f"{unseen.sum()} of {symbols.sum()} symbols do not occur in the training part of this replica, so its predictions"
      " would say nothing; check that the sequences are written as they were for training"
    )
  if unseen.any():
    logging.warning(
      "%d symbols in %d of %d rows do not occur in training",
      unseen.sum(),
      features.num_sequences(np.flatnonzero(unseen.any(1))),
      sum(features.parts.values()),
    )
