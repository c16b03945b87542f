"""Uses a finished run's model on a new table of sequences."""

import csv
import dataclasses
import pathlib
from collections.abc import Sequence

import jax
import numpy as np
from absl import logging
from ml_collections import ConfigDict

from discipline_jax import progress
from discipline_jax.errors import UserError
from discipline_jax.evaluation import place_samples
from discipline_jax.evaluation import predict as predict_logits
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.heads import Classifier, ClassifierConfig
from discipline_jax.models.initialise import SubTable, word_embeddings
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.plan import DTYPES, model_parts, token_map
from discipline_jax.saved import Saved, read_model
from discipline_jax.tasks.base import Alphabet, Example, keep_valid, upper
from discipline_jax.tasks.custom import encode, read_rows, task_format
from discipline_jax.tasks.features import NUM_SPECIAL, featurise
from discipline_jax.tasks.metrics import predictions
from discipline_jax.tasks.tables import Row, read_table
from discipline_jax.training.sharding import make_mesh, put, state_shardings
from discipline_jax.training.steps import make_eval_step
from discipline_jax.whole_files import whole_file


def predict(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Writes a CSV file with a line for each row of `task.path`: its line there, the prediction, and the probabilities.

  Of a run with several replicas the one that is best on validation predicts. What it computes for a row is what the
  evaluation of the run computes, bit for bit where the run evaluates its replicas one by one, as on CPU, and on
  the same kind of device. Of music a row is one segment of up to 128 pitches; to count a piece's votes is the caller's.

  Args:
    config: `task.path`, its format, `predict.output` and `mesh` are taken from it; all else is the run's.
    workdir: of the finished run.
    dry_run: only say what would run.

  Raises:
    UserError: no finished run, or a table that its task cannot read, with file and line.
  """
  saved = read_model(workdir)
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
  places, examples = _read(pathlib.Path(source).expanduser(), saved, config)
  replica = saved.best
  seed, score = saved.seeds[replica], saved.result["validation"]["runs"][replica]
  summary = (
    f"{len(examples)} rows of {source} by the replica with seed {seed} ({saved.task.metric} {score:.1f} on"
    f" validation) of {workdir}"
  )
  if dry_run:
    print(summary)
    return
  logging.info("%s", summary)
  logits = _logits(saved, examples, replica, config)
  _write(path, saved, places, logits)
  print(f"{summary}: {path}")


def _read(path: pathlib.Path, saved: Saved, config: ConfigDict) -> tuple[list[str], list[Example]]:
  """The rows' places and samples, without labels."""
  alphabet = saved.task.alphabet
  if alphabet is not None:
    form = dataclasses.replace(
      task_format(config.task),
      symbols=_symbols(saved),
    )
    rows = read_rows(path, form, labelled=False)
    if not alphabet.is_open:
      rows = keep_valid(
        rows,
        lambda row: (row[0], _known(row[1], alphabet, row[0].place), ""),
        form.skip_invalid,
        path,
      )
    sequences = encode([symbols for _, symbols, _ in rows], alphabet)
    return [row.place for row, _, _ in rows], [Example(sequence, 0) for sequence in sequences]
  columns = config.task.sequence_column.split(",")
  if len(columns) != 1 + saved.pairs:
    wanted = "two columns with a comma between them" if saved.pairs else "one column of texts"
    raise UserError(
      f"task.sequence_column = {config.task.sequence_column!r} is not {wanted}; set it"
    )
  # Quotes in a .tsv are part of the text, as they are in GLUE's files.
  texts = [read_table(path, column, None, None, tsv_quotes=False) for column in columns]
  samples = keep_valid(zip(*texts, strict=True), _read_text, config.task.skip_invalid, path)
  return [place for place, _ in samples], [example for _, example in samples]


def _read_text(rows: tuple[Row | UserError, ...]) -> tuple[str, Example]:
  """The place and the sample of the one or two texts of a row."""
  texts = []
  for row in rows:
    if isinstance(row, UserError):
      raise row
    if not isinstance(row.sequence, str):
      raise UserError(f"{str(row.sequence)[:40]!r} is not a text, {row.place}; correct the line")
    texts.append(row.sequence)
    place = row.place
  return place, Example(texts[0], 0, texts[1] if len(texts) == 2 else None)


def _symbols(saved: Saved) -> str:
  """`task.symbols` as the run's task has it: the pitches of music are integers."""
  if saved.task.name == "custom":
    return saved.config.task.symbols
  assert saved.task.alphabet is not None
  return "characters" if max(map(len, saved.task.alphabet.symbols)) == 1 else "integers"


def _known(symbols: Sequence[str], alphabet: Alphabet, place: str) -> Sequence[str]:
  if max(map(len, alphabet.symbols)) == 1:  # then a list of them is a text, too
    symbols = upper("".join(symbols))
  wrong = alphabet.unknown(symbols)
  if wrong is not None:
    raise UserError(
      f"{wrong!r} is not a symbol of the run's task ({' '.join(alphabet.symbols)}), {place}; correct the line"
    )
  return symbols


def _logits(saved: Saved, examples: list[Example], replica: int, config: ConfigDict) -> np.ndarray:
  task = dataclasses.replace(saved.task, read=lambda: {"all": examples})
  checkpoint, model_config, vocabulary = model_parts(saved.config, task)
  features = featurise(task, vocabulary, saved.max_length)
  edges = np.append(saved.lengths[saved.lengths < saved.max_length], saved.max_length)
  lengths = edges[np.searchsorted(edges, features.lengths)]
  padding = ((0, 0), (0, int(lengths.max()) - features.symbols.shape[1]))
  features = dataclasses.replace(
    features,
    symbols=np.pad(features.symbols, padding),
    segments=None if features.segments is None else np.pad(features.segments, padding),
  )
  params, lookup = _params(
    saved, replica, checkpoint, model_config, vocabulary, features.symbol_ids
  )
  if saved.task.alphabet is not None and saved.task.alphabet.is_open:
    unseen = (features.symbols >= NUM_SPECIAL) & (lookup[features.symbols] == lookup[-1])
    if unseen.any():
      logging.warning(
        "%d symbols in %d of %d rows do not occur in training",
        unseen.sum(),
        unseen.any(1).sum(),
        len(unseen),
      )
  mesh = make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)
  params = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
  params = put(params, state_shardings(mesh, params))
  compact = dataclasses.replace(model_config, vocab_size=word_embeddings(params)["weight"].shape[1])
  forward = classifier_function(
    compact, Classifier(task.num_outputs), DTYPES[saved.config.model.dtype]
  )
  with progress.bar(total=len(examples), unit="row", disable=None) as bar:
    return predict_logits(
      mesh,
      make_eval_step(forward, mesh, params),
      params,
      place_samples(mesh, features, [lookup], [saved.seeds[replica]]),
      np.arange(len(examples))[None],
      lengths,
      saved.config.eval.batch_size,
      progress=bar.update,
    )[0]


def _params(
  saved: Saved,
  replica: int,
  checkpoint: pathlib.Path | None,
  model_config: ClassifierConfig,
  vocabulary: Vocabulary,
  symbol_ids: np.ndarray,
) -> tuple[dict, np.ndarray]:
  """A replica's parameters, and for every symbol of the new samples the place of its row in their embedding table."""
  if saved.task.alphabet is not None:
    params, _, lookup = saved.weights(saved.seeds[replica])
    return params, lookup
  # A new text may have tokens that training did not see.
  params = saved.whole_params(replica, checkpoint, model_config)
  # Some maps depend on which tokens the run had.
  table_of_ids = token_map(saved.config, vocabulary, saved.symbol_ids, replica)
  sub_table = SubTable.reachable(table_of_ids[symbol_ids])
  embeddings = word_embeddings(params)
  embeddings["weight"] = sub_table.cut(embeddings["weight"])
  return params, sub_table.lookup


def _write(path: pathlib.Path, saved: Saved, places: list[str], logits: np.ndarray) -> None:
  labels = saved.task.labels
  predicted = predictions(logits, len(labels))
  probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
  with whole_file(path, text=True) as file:
    writer = csv.writer(file)
    writer.writerow(["line", "prediction", *(f"p_{label}" for label in labels)])
    for place, prediction, row in zip(places, predicted, probabilities, strict=True):
      line = place.rpartition(":")[2]
      if labels:
        writer.writerow([line, labels[prediction], *(float(p) for p in row)])
      else:
        writer.writerow([line, float(prediction)])
