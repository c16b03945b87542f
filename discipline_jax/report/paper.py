"""Finds the paper's number for a score, by its task and labels.

`paper.csv` has the tables of Kao and Lee, "Is BERT a Cross-Disciplinary Knowledge Learner?" (arXiv 2103.07162; versions
v1 and v2 of it), and of Devlin et al. 2019 (version `bert`), with a line for each number: version, table, task, metric,
model, setting, split, mean, std. Scores are times 100.
"""

import csv
import dataclasses
import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any

# The version of the paper that is looked at first where a run does not say which one it repeats.
_VERSIONS = ("v2", "v1")
_METRICS = {"mcc": "matthews"}
# The first version calls the same network another name in one of its tables.
_OTHER_NAMES = {("v1", "scratch"): "bert_scratch"}


@dataclasses.dataclass(frozen=True)
class Number:
  """A number of the paper.

  Attributes:
    mean: the score, times 100.
    std: its standard deviation over runs; None if the paper does not give it.
    source: version and table.
  """

  mean: float
  std: float | None
  source: str


def find_number(labels: Mapping[str, Any], task: str, metric: str, split: str) -> Number | None:
  """Returns the paper's number, or None if it has none.

  Args:
    labels: `model` and `setting` as the paper's table has them, and `version`, if it is known.
    task: the paper's name of the task, or `GLUE`, `protein_average`, `dna_average`.
    metric: ours, or `average`.
    split: validation or test, whose samples the score is of.
  """
  versions = [str(labels["version"])] if "version" in labels else _VERSIONS
  model, setting = (str(labels.get(name)) for name in ("model", "setting"))
  for version in versions:
    for name in (model, _OTHER_NAMES.get((version, model))):
      found = _numbers().get((version, task, _METRICS.get(metric, metric), name, setting, split))
      if found is not None:
        return found
  return None


def has_numbers(task: str) -> bool:
  """Says whether the paper has any number for a task, by its name there."""
  return any(row["task"] == task for row in _rows())


def unknown_labels(labels: Mapping[str, Any]) -> list[str]:
  """Returns which of a run's labels the paper does not have, as `model minilm`."""
  known = _known()
  return [
    f"{name} {labels[name]}"
    for name in known
    if name in labels and str(labels[name]) not in known[name]
  ]


@functools.cache
def _rows() -> list[dict[str, str]]:
  text = resources.files("discipline_jax.report").joinpath("paper.csv").read_text(encoding="utf-8")
  return list(csv.DictReader(text.splitlines()))


@functools.cache
def _numbers() -> dict[tuple[str | None, ...], Number]:
  keys = ("version", "task", "metric", "model", "setting", "split")
  return {
    tuple(row[key] for key in keys): Number(
      float(row["mean"]),
      float(row["std"]) if row["std"] else None,
      f"{row['version']}, table {row['table']}",
    )
    for row in _rows()
  }


@functools.cache
def _known() -> dict[str, set[str]]:
  return {name: {row[name] for row in _rows()} for name in ("version", "model", "setting")}
