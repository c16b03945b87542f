"""Finds the finished comparisons below a folder: their tables and what they conclude."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.report.difference import ends, number
from discipline_jax.report.labels import named
from discipline_jax.report.tree import optional_json, results


@dataclasses.dataclass(frozen=True)
class Verdict:
  """Holds what a comparison concludes.

  Attributes:
    name: its folder below the tree, `.` if the tree is the comparison.
    title: the task, or one's own file, and the metric.
    table: rows of cells, a row for each network and baseline; the first one is the head.
    sentences: what the runs show.
    limits: what they cannot tell.
  """

  name: str
  title: str
  table: list[list[str]]
  sentences: list[str]
  limits: list[str]


def verdict_of(result: Mapping[str, Any], config: Mapping[str, Any], name: str = ".") -> Verdict:
  """Returns what a result of `mode = compare` concludes; raises LookupError, TypeError or ValueError if it is none.

  Args:
    result: content of the result.json.
    config: content of the config.json beside it; empty if that is not known.
    name: its folder below the tree.
  """
  table = [["", "setting", "validation", "test", "seeds", f"{result['best']} is above it by"]]
  against = {one["second"]: one for one in result["differences"] if one["first"] == result["best"]}
  for candidate, one in result["candidates"].items():
    by = against.get(candidate)
    scores = [
      f"{one[part]['mean']:.1f} ± {one[part]['std']:.1f}" for part in ("validation", "test")
    ]
    seeds = ", ".join(f"{run:.1f}" for run in one["test"]["runs"])
    lead = "" if by is None else f"{number(by['mean'])} ({ends(tuple(by['by_samples']))})"
    table.append([candidate, one["setting"], *scores, seeds, lead])
  title = f"{named(result['task'], config)} ({result['metric']})"
  return Verdict(name, title, table, _texts(result["sentences"]), _texts(result["limits"]))


def read_verdicts(folder: pathlib.Path) -> tuple[list[Verdict], list[str]]:
  """Returns the verdicts of the comparisons below a folder, by name, and a line about each that cannot be read."""
  found: list[Verdict] = []
  notes: list[str] = []
  for path, name, result in results(folder, "compare"):
    try:
      found.append(verdict_of(result, optional_json(path / "config.json", notes), name))
    except (AttributeError, LookupError, TypeError, ValueError):
      notes.append(f"no result of a comparison, {path / 'result.json'}; left out")
  return found, notes


def _texts(values: Any) -> list[str]:
  if not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
    raise TypeError
  return values
