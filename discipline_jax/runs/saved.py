"""Writes and reads the model that a finished fine-tuning leaves: each replica's best weights, and its task.

`model/task.json` holds the task and how its inputs are made, and `model/SEED.safetensors` the parameters of the replica
with that seed, under their own names. Of the word embeddings it has only the trained rows, whose numbers are in `rows`.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from ml_collections import ConfigDict
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched
from discipline_jax.files.places import Path, make_folder
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.heads import ClassifierConfig
from discipline_jax.models.initialise import SubTable, initial_table, word_embeddings
from discipline_jax.models.locate import local_directory
from discipline_jax.tasks.base import Task


@dataclasses.dataclass(frozen=True)
class Inputs:
  """Holds how the inputs of a trained model are made.

  Attributes:
    max_length: longest input in tokens.
    lengths: the lengths that were compiled.
    seeds: seeds of the replicas.
    symbol_ids: token ids of the task's symbols; for text, of the tokens that occurred.
  """

  max_length: int
  lengths: np.ndarray
  seeds: list[int]
  symbol_ids: np.ndarray


@dataclasses.dataclass(frozen=True)
class Saved:
  """The model of a finished run.

  Attributes:
    config: config of the run.
    result: its result.json.
    task: its task, without samples.
    inputs: how its inputs are made.
    folder: where the weights are.
  """

  config: ConfigDict
  result: dict
  task: Task
  inputs: Inputs
  folder: Path

  @property
  def best(self) -> int:
    """The number of the replica with the highest validation score."""
    return int(np.argmax(self.result["validation"]["runs"]))

  def describe(self, replica: int) -> str:
    """Returns a few words about a replica."""
    score = self.result["validation"]["runs"][replica]
    return f"the replica with seed {self.inputs.seeds[replica]} ({self.result['metric']} {score:.1f} on validation)"

  def whole_params(
    self, replica: int, checkpoint: pathlib.Path | None, config: ClassifierConfig
  ) -> dict:
    """Returns a replica's parameters with the whole embedding table; rows that were not trained are as before training.

    Args:
      replica: number of the replica.
      checkpoint, config: checkpoint and sizes of the run's model, see `programs.model.Model`.
    """
    seed = self.inputs.seeds[replica]
    params, rows, _ = self.weights(seed)
    head = self.task.answer.head
    model = self.config.model
    table = initial_table(model.init, config, head, checkpoint, seed)
    table[rows] = word_embeddings(params)["weight"]
    word_embeddings(params)["weight"] = table
    return params

  def weights(self, seed: int) -> tuple[dict, np.ndarray, np.ndarray]:
    """Returns a replica's parameters with only the trained rows of the word embeddings, the numbers of these rows, and
    for each symbol the place of its row among them.
    """
    path = self.folder / f"{seed}.safetensors"
    file = fetched(path)
    try:
      arrays = load_file(file)
    except (OSError, SafetensorError) as error:
      raise UserError(
        f"the run's weights cannot be read ({error}), {path}; run it again in another --workdir"
      ) from None
    rows, lookup = arrays.pop("rows"), arrays.pop("lookup")
    paths = {  # layers are numbered by integers
      tuple(int(part) if part.isdigit() else part for part in name.split(".")): array
      for name, array in arrays.items()
    }
    return unflatten_dict(paths), rows, lookup


def write_model(
  workdir: Path,
  task: Task,
  inputs: Inputs,
  params: Mapping[int, dict],
  sub_tables: Sequence[SubTable],
) -> None:
  """Writes the model of a run.

  Args:
    workdir: workdir of the run.
    task: the run's task.
    inputs: how its inputs are made.
    params: parameters of the replica with each seed, without a replica axis.
    sub_tables: the trained rows of each replica, in the order of `params`.
  """
  folder = workdir / "model"
  make_folder(folder)
  for (seed, one), sub_table in zip(params.items(), sub_tables, strict=True):
    arrays = {
      ".".join(map(str, path)): np.ascontiguousarray(leaf)
      for path, leaf in flatten_dict(one).items()
    }
    with whole_file(folder / f"{seed}.safetensors") as file:
      file.write(save({**arrays, "rows": sub_table.rows, "lookup": sub_table.lookup}))
  description = {
    **task.to_json(),
    "symbol_ids": inputs.symbol_ids.tolist(),
    "max_length": inputs.max_length,
    "lengths": inputs.lengths.tolist(),
    "seeds": inputs.seeds,
  }
  with whole_file(folder / "task.json", text=True) as file:
    file.write(json.dumps(description) + "\n")


def _moved(checkpoint: str, workdir: Path) -> str:
  """Returns where a local checkpoint is: beside the run, if both were moved together, as the runs of a study are."""
  place, at, step = checkpoint.rpartition("@")
  if not at:
    place, step = step, ""
  beside = workdir.parent / pathlib.PurePath(place).name
  is_gone = local_directory(checkpoint) is None
  return f"{beside}{at}{step}" if is_gone and local_directory(f"{beside}{at}{step}") else checkpoint


def read_model(workdir: Path) -> Saved:
  """Reads what `write_model` wrote; raises UserError if the run is not finished."""
  try:
    description, result, fields = (
      json.loads((workdir / name).read_text(encoding="utf-8"))
      for name in ("model/task.json", "result.json", "config.json")
    )
  except (OSError, ValueError):
    below = sorted(path.parent.parent for path in workdir.glob("*/model/task.json"))
    others = f", such as {below[0]}" if below else ""
    raise UserError(
      f"no finished fine-tuning in {workdir}; give the --workdir of one that has ended{others}"
    ) from None
  config = defaults.read(fields)
  if result.get("commit") is not None:  # the hub's main branch may have moved since
    config.model.checkpoint = config.model.checkpoint.partition("@")[0]
    config.model.revision = result["commit"]
  elif config.model.checkpoint is not None:
    config.model.checkpoint = _moved(config.model.checkpoint, workdir)
  inputs = Inputs(
    description["max_length"],
    np.array(description["lengths"], np.int32),
    description["seeds"],
    np.array(description["symbol_ids"], np.int32),
  )
  return Saved(config, result, Task.from_json(description), inputs, workdir / "model")
