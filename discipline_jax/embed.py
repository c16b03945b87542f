"""Turns the rows of a table into vectors: hidden states of a checkpoint, or of the model of a finished fine-tuning."""

import itertools

import jax
from absl import logging
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.embedding_sources import Source, check_table, find_source
from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.places import Path
from discipline_jax.files.vector_files import (
  OWN,
  SUFFIXES,
  Form,
  is_vector_file,
  local_output,
  vector_file,
)
from discipline_jax.models.initialise import INITS
from discipline_jax.programs.embedding import POOLINGS, Embedding
from discipline_jax.programs.model import DTYPES
from discipline_jax.runs.inputs import stamps
from discipline_jax.table_files import check_files, check_replaced, kept_columns
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.streamed import kept, scan, windows
from discipline_jax.tasks.token_maps import KINDS
from discipline_jax.tasks.unlabelled import each_unlabelled
from discipline_jax.training.sharding import check_tensor, mesh_of


def embed(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Writes the vector of each row of `task.path` to a file, in order; memory does not grow with the table.

  The table is read twice: all of it is checked, and its lengths are counted, before anything is computed. For
  characters and k-mers it is read once more before, to see whether blanks stand between the letters.

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
  output = local_output(output)
  check_replaced(output, "embed", is_vector_file)
  columns = kept_columns(config, "embed", OWN)
  mesh = mesh_of(config)
  source = find_source(config, workdir)
  check_tensor(mesh, source.network.config)
  pooling, layer = config.embed.pooling, _layer(config, source)
  keep = [Column(name, "embed.keep_columns") for name in columns]
  files = {"task.path": {"all": path}}
  before = stamps(files)
  samples = each_unlabelled(
    path, source.task, config.task, trained=source.trained, pairs=source.pairs, keep=keep
  )
  found = scan(samples(), source.inputs)
  check_table(found, source, path)
  summary = f"vectors of {found.rows} rows of {path} ({pooling}, layer {layer}) by {source.name}"
  if dry_run:
    print(f"would write {output}: {summary}")
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
  print(f"wrote {output}: {summary}")


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
  if config.task.long not in (None, "cut"):
    raise UserError(
      f"task.long = {config.task.long!r}, but mode embed cuts long sequences at the end; set --config.task.long=cut"
    )
  if jax.process_count() > 1:
    raise UserError("mode = embed runs in one process; start it on one machine")


def _layer(config: ConfigDict, source: Source) -> int:
  """Returns the number of the layer that `embed.layer` names, which counts from the end if it is negative.

  Raises:
    UserError: no such layer, or a pooling that does not fit it or the model's inputs.
  """
  given, last = config.embed.layer, len(source.network.config.layer_order)
  if source.pairs and config.embed.pooling == "tokens":
    raise UserError(
      "embed.pooling = 'tokens' is for one sequence a row, but the rows are pairs of texts; set"
      " --config.embed.pooling=mean"
    )
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
