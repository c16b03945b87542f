"""Turns the rows of a table into vectors: hidden states of a checkpoint, or of the model of a finished fine-tuning."""

import itertools
import pathlib

import jax
from absl import logging
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.embedding_sources import Source, find_source
from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.vector_files import OWN, SUFFIXES, Form, check_suffix, vector_file
from discipline_jax.models.initialise import INITS
from discipline_jax.predict import check_files, kept_columns
from discipline_jax.programs.embedding import POOLINGS, Embedding
from discipline_jax.programs.model import DTYPES
from discipline_jax.runs.inputs import stamps
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.streamed import Scan, kept, scan, windows
from discipline_jax.tasks.symbols import judge_unknown
from discipline_jax.tasks.token_maps import KINDS
from discipline_jax.tasks.unlabelled import each_unlabelled
from discipline_jax.training.sharding import check_tensor, mesh_of

_REMEDIES = {
  "upper": "add --config.task.case=upper, or write them in upper case",
  "lower": "write them in lower case",
  "mixed": "write them as they are in training",
  "other": "check that sequences are written as the model has them, and task.symbols, task.case, task.sequence_column",
}


def embed(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Writes the vector of each row of `task.path` to a file, in order; memory does not grow with the table.

  The table is read twice: all of it is checked, and its lengths are counted, before anything is computed.

  Args:
    config: `task.path` and its format, `embed`, `eval.batch_size` and `mesh` are taken from it, and for a checkpoint
      `model`, `token_map` and `seed`.
    workdir: of a finished fine-tuning, if `model.checkpoint` is unset.
    dry_run: only say what would run.

  Raises:
    UserError: no model, a table that cannot be read, with file and line, or an output that cannot be written.
  """
  _check(config)
  path, output = check_files(config, "embed", SUFFIXES)
  if not isinstance(output, pathlib.Path):
    raise UserError(
      f"mode embed writes to local files only, {output}; set --config.embed.output to one"
    )
  check_suffix(output)
  columns = kept_columns(config, "embed", OWN)
  mesh = mesh_of(config)
  source = find_source(config, workdir)
  check_tensor(mesh, source.network.config)
  layer = _layer(config, len(source.network.config.layer_order))
  keep = [Column(name, "embed.keep_columns") for name in columns]
  samples = each_unlabelled(
    path, source.task, config.task, trained=source.trained, pairs=source.pairs, keep=keep
  )
  files = {"task.path": {"all": path}}
  before = stamps(files)
  found = scan(samples(), source.inputs)
  _check_table(found, source, path)
  pooling = config.embed.pooling
  summary = f"{found.rows} rows of {path} ({pooling}, layer {layer}) by {source.name}"
  if dry_run:
    print(summary)
    return
  logging.info("%s", summary)
  embedding = Embedding(
    source.network,
    found,
    mesh,
    pooling=pooling,
    layer=layer,
    special=source.inputs.special,
    batch_size=config.eval.batch_size,
  )
  widths = dict(zip(columns, found.widths, strict=True))
  form = Form(found.rows, embedding.num_vectors, embedding.size, pooling == "tokens", widths)
  with (
    vector_file(output, form) as write,
    progress.bar(total=found.rows, unit="row", disable=None) as bar,
  ):
    for window in windows(itertools.islice(samples(), found.rows), embedding.window):
      encoded = source.inputs.encode([own for _, own in window])
      vectors = embedding.vectors(encoded, bar.update)
      lines = [int(row.place.rpartition(":")[2]) for row, _ in window]
      write(lines, kept(window), vectors, embedding.counts(encoded.lengths))
    if stamps(files) != before:
      raise UserError(f"the file was changed while it was read, {path}; start again")
  print(f"{summary}: {output}")


def _check(config: ConfigDict) -> None:
  command_line.at_least(config, 1, ("eval.batch_size",))
  command_line.at_least(config, 0, ("seed", "token_map.seed"))
  command_line.one_of(
    config,
    {
      "embed.pooling": POOLINGS,
      "model.init": INITS,
      "model.dtype": DTYPES,
      "token_map.kind": ("auto", *KINDS),
    },
  )
  if config.task.long != "cut":
    raise UserError(
      f"task.long = {config.task.long!r}, but mode embed cuts long sequences at the end; set --config.task.long=cut"
    )
  if jax.process_count() > 1:
    raise UserError("mode = embed runs in one process; start it on one machine")


def _layer(config: ConfigDict, last: int) -> int:
  """Returns the number of the layer that `embed.layer` names, which counts from the end if it is negative."""
  given = config.embed.layer
  if given is None:
    return last
  layer = given if given >= 0 else last + 1 + given
  if not 0 <= layer <= last:
    raise UserError(
      f"embed.layer = {given}, but the model has the layers 0 (embeddings) to {last}; set --config.embed.layer"
    )
  if config.embed.pooling == "pooled" and layer != last:
    raise UserError(
      f"embed.layer = {given}, but embed.pooling = 'pooled' reads the last, {last}; set --config.embed.pooling=mean, or"
      " leave embed.layer unset"
    )
  return layer


def _check_table(found: Scan, source: Source, path: pathlib.Path) -> None:
  """Logs rows that are cut, and symbols that are read as the unknown token; raises UserError if these are most."""
  if found.cut:
    logging.warning(
      "%d of %d rows of %s are longer than the model takes and are cut at the end",
      found.cut,
      found.rows,
      path,
    )
  if found.first_unknown is None:
    return
  total, number = found.symbols.total(), found.unknown.total()
  judge_unknown(
    found.unknown, total, found.first_unknown, source.known, _REMEDIES, source.what_is_unknown
  )
  logging.warning(
    "%d of %d symbols %s (%s), first at %s; they are read as the unknown token",
    number,
    total,
    source.what_is_unknown,
    " ".join(one for one, _ in found.unknown.most_common(10))[:60],
    found.first_unknown,
  )
