"""What a finished run leaves for others to use: each replica's best weights, and how its task is read.

`model/task.json` holds the task, and `model/SEED.safetensors` the parameters of the replica with that seed, under their
own names, but of the word embeddings only the trained rows, whose numbers are in `rows`.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from ml_collections import ConfigDict
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.models.heads import Classifier, ClassifierConfig
from discipline_jax.models.initialise import initial_params, word_embeddings
from discipline_jax.plan import Plan
from discipline_jax.tasks.base import Alphabet, Task
from discipline_jax.whole_files import whole_file


@dataclasses.dataclass(frozen=True)
class Saved:
  """A finished run's model.

  Attributes:
    config: of the run.
    result: its result.json.
    task: its task, without samples.
    max_length: longest input in tokens.
    lengths: that were compiled.
    seeds: of the replicas.
    pairs: whether a sample is two texts.
    symbol_ids: the token ids of its symbols; of text, those that occurred.
    folder: where the weights are.
  """

  config: ConfigDict
  result: dict
  task: Task
  max_length: int
  lengths: np.ndarray
  seeds: list[int]
  pairs: bool
  symbol_ids: np.ndarray
  folder: pathlib.Path

  @property
  def best(self) -> int:
    """The replica with the highest validation score."""
    return int(np.argmax(self.result["validation"]["runs"]))

  def whole_params(
    self, replica: int, checkpoint: pathlib.Path | None, config: ClassifierConfig
  ) -> dict:
    """A replica's parameters with the whole embedding table: rows that were not trained are what the run began with.

    Args:
      replica: its number.
      checkpoint, config: of the run, see `plan.model_parts`.
    """
    seed = self.seeds[replica]
    params, rows, _ = self.weights(seed)
    head = Classifier(self.task.num_outputs)
    before = initial_params(self.config.model.init, config, head, checkpoint, seed)
    table = np.array(word_embeddings(before)["weight"])
    table[rows] = word_embeddings(params)["weight"]
    word_embeddings(params)["weight"] = table
    return params

  def weights(self, seed: int) -> tuple[dict, np.ndarray, np.ndarray]:
    """A replica's parameters with the trained rows of the word embeddings, their numbers, and each symbol's place."""
    path = self.folder / f"{seed}.safetensors"
    try:
      arrays = load_file(path)
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


def write_model(workdir: pathlib.Path, plan: Plan, params: Mapping[int, dict]) -> None:
  """Writes the model of a run.

  Args:
    workdir: of the run.
    plan: of the run.
    params: the parameters of the replica with each seed, without a replica axis.
  """
  folder = workdir / "model"
  folder.mkdir(exist_ok=True)
  for (seed, one), sub_table in zip(params.items(), plan.sub_tables, strict=True):
    arrays = {
      ".".join(map(str, path)): np.ascontiguousarray(leaf)
      for path, leaf in flatten_dict(one).items()
    }
    with whole_file(folder / f"{seed}.safetensors") as file:
      file.write(save({**arrays, "rows": sub_table.rows, "lookup": sub_table.lookup}))
  task = plan.task
  description = {
    "name": task.name,
    "alphabet": None if task.alphabet is None else dataclasses.asdict(task.alphabet),
    "labels": task.labels,
    "metric": task.metric,
    "bracketed": task.bracketed,
    "pairs": plan.features.segments is not None,
    "symbol_ids": plan.features.symbol_ids.tolist(),
    "max_length": plan.max_length,
    "lengths": np.unique(plan.lengths).tolist(),
    "seeds": plan.seeds,
  }
  with whole_file(folder / "task.json", text=True) as file:
    file.write(json.dumps(description) + "\n")


def read_model(workdir: pathlib.Path) -> Saved:
  """Reads what `write_model` wrote; raises UserError where the run is not finished."""
  try:
    description, result, fields = (
      json.loads((workdir / name).read_text(encoding="utf-8"))
      for name in ("model/task.json", "result.json", "config.json")
    )
  except (OSError, ValueError):
    raise UserError(
      f"no finished run in {workdir}; give the --workdir of a fine-tuning that has ended"
    ) from None
  alphabet = description["alphabet"]
  if alphabet is not None:
    alphabet = Alphabet(
      tuple(alphabet["symbols"]),
      alphabet["aliases"],
      None if alphabet["ids"] is None else tuple(alphabet["ids"]),
      alphabet["is_open"],
      alphabet.get("unknown_symbol"),  # older runs do not say
    )
  task = Task(
    description["name"],
    alphabet,
    tuple(description["labels"]),
    description["metric"],
    description["max_length"],
    read=dict,
    bracketed=description["bracketed"],
  )
  return Saved(
    defaults.read(fields),
    result,
    task,
    description["max_length"],
    np.array(description["lengths"], np.int32),
    description["seeds"],
    description["pairs"],
    np.array(description["symbol_ids"], np.int32),
    workdir / "model",
  )
