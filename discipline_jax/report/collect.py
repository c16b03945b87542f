"""Collects the scores of a tree of runs into one table, a row for each run and part."""

import dataclasses
import pathlib
import urllib.parse
from typing import Any

import numpy as np
import pandas as pd

from discipline_jax.report.labels import Names, column, name_runs, paper_split
from discipline_jax.report.paper import find_number, has_numbers, unknown_labels
from discipline_jax.report.tree import Run, Tree, read

_LABELS = ("version", "table", "model", "setting", "step", "corpus", "fraction")
_SCORES = (
  "mean",
  "std",
  "replicas",
  "runs",
  "samples",
  "low",
  "high",
  "constant",
  "balanced_accuracy",
)
_PAPER = ("paper_mean", "paper_std", "paper_source", "difference")
_PROVENANCE = (
  "steps",
  "seeds",
  "checkpoint",
  "network",
  "device",
  "versions",
  "identity",
  "seconds",
)
_WHOLE = ("step", "samples")  # and may be missing
_FLOATS = ("mean", "std", "low", "high", "constant", "balanced_accuracy", *_PAPER[:2], "difference")
COLUMNS = (
  *(
    "run",
    "mode",
    "part",
    "discipline",
    "task",
    "metric",
    "variant",
    *_LABELS,
    "init",
    "token_map",
  ),
  *(*_SCORES, "in_training", "collapsed", "best_steps", *_PAPER, *_PROVENANCE),
  *("examples_per_second", "result", "config"),
)


@dataclasses.dataclass(frozen=True)
class Collected:
  """A tree of runs with its table.

  Attributes:
    tree: the runs.
    names: of each fine-tuning, by the name of the run.
    rows: see `collect`.
    notes: what a reader must know before the numbers, one line each.
  """

  tree: Tree
  names: dict[str, Names]
  rows: pd.DataFrame
  notes: tuple[str, ...]


def collect(folder: pathlib.Path) -> pd.DataFrame:
  """Returns the scores of all finished runs below a folder, a row for each run and part.

  `docs/reports.md` says what each column is. The order is that of the study, then of names.

  Raises:
    UserError: no folder, or no finished run in it.
  """
  return collect_tree(read(folder)).rows


def collect_tree(tree: Tree) -> Collected:
  """Returns the table of a tree's runs, with their names and what is noteworthy."""
  names = name_runs(tree.runs)
  rows = []
  for run in tree.runs:
    if run.mode == "finetune":
      rows += [_finetuned(run, names[run.name], part) for part in run.parts]
    else:
      rows.append(_pretrained(run))
  unknown = sorted(
    {
      one
      for run in tree.runs
      if run.mode == "finetune" and any(has_numbers(column(run, part)) for part in run.parts)
      for one in unknown_labels(names[run.name].labels)
    }
  )
  notes = [*tree.notes, *_doubts(tree.runs)]
  if unknown:
    notes.append(f"the paper has no number for: {', '.join(unknown)}")
  table = pd.DataFrame(rows, columns=list(COLUMNS)).astype(
    dict.fromkeys(_WHOLE, "Int64") | dict.fromkeys(_FLOATS, "float64")
  )
  return Collected(tree, names, table, tuple(notes))


def _finetuned(run: Run, names: Names, part: str) -> dict[str, Any]:
  result, scores = run.result, run.result[part]
  labels = names.labels
  task = column(run, part)
  number = find_number(labels, task, result["metric"], paper_split(run, part))
  low, high = _interval(scores.get("intervals"))
  return {
    **_common(run, part),
    "discipline": names.discipline,
    "task": task,
    "metric": result["metric"],
    "variant": names.variant,
    **{name: labels.get(name) for name in _LABELS},
    "init": result["init"],
    "token_map": result["token_map"],
    "mean": scores["mean"],
    "std": scores["std"] if len(scores["runs"]) > 1 else None,
    "replicas": len(scores["runs"]),
    "runs": scores["runs"],
    "samples": _least(scores.get("samples")),
    "low": low,
    "high": high,
    "constant": _mean(scores.get("constant")),
    "balanced_accuracy": _mean(scores.get("balanced_accuracy")),
    "in_training": max(scores.get("in_training") or [0]),
    "collapsed": bool(result.get("collapsed")),
    "best_steps": result.get("best_steps"),
    "paper_mean": None if number is None else number.mean,
    "paper_std": None if number is None else number.std,
    "paper_source": None if number is None else number.source,
    "difference": None if number is None else scores["mean"] - number.mean,
    **_provenance(run),
  }


def _pretrained(run: Run) -> dict[str, Any]:
  return {
    **_common(run, "validation"),
    "metric": "loss",
    "step": None,
    "corpus": run.result.get("corpus"),
    "mean": run.result["validation"]["loss"],
    "replicas": 1,
    "samples": None,
    **_provenance(run),
  }


def _common(run: Run, part: str) -> dict[str, Any]:
  return {"run": run.name, "mode": run.mode, "part": part}


def _provenance(run: Run) -> dict[str, Any]:
  """Returns where a run's numbers come from, the same columns for all modes."""
  result = run.result
  return {
    "steps": result["steps"],
    "seeds": run.seeds,
    "checkpoint": result.get("model"),
    "network": result.get("network"),
    "device": result["device"],
    "versions": " ".join(f"{name} {version}" for name, version in result["versions"].items()),
    "identity": result.get("identity"),
    "seconds": result.get("seconds"),
    "examples_per_second": result.get("examples_per_second"),
    "result": link(run, "result.json"),
    "config": link(run, "config.json") if run.config else None,
  }


def link(run: Run, file: str) -> str:
  """Returns the address of a run's file as seen from the folder of the report."""
  return urllib.parse.quote(f"../{run.name}/{file}" if run.name != "." else f"../{file}")


def _doubts(runs: tuple[Run, ...]) -> list[str]:
  """Returns lines about runs that are not like the others, or whose scores say nothing."""
  notes = []
  collapsed = [run.name for run in runs if run.result.get("collapsed")]
  if collapsed:
    notes.append(f"collapsed, a replica predicts (nearly) one answer: {', '.join(collapsed)}")
  devices = _groups([(run.result["device"], run.name) for run in runs])
  if len(devices) > 1:
    notes.append(f"mixed devices: {_counted(devices)}")
  packages = sorted({name for run in runs for name in run.result["versions"]})
  for package in packages:
    versions = _groups([(str(run.result["versions"].get(package)), run.name) for run in runs])
    if len(versions) > 1:
      notes.append(f"mixed versions of {package}: {_counted(versions)}")
  return notes


def _groups(pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
  groups: dict[str, list[str]] = {}
  for value, name in pairs:
    groups.setdefault(value, []).append(name)
  return groups


def _counted(groups: dict[str, list[str]]) -> str:
  """Returns how many runs have each value, and the names of the runs of the rarer ones."""
  most = max(groups.values(), key=len)
  lines = []
  for value, names in groups.items():
    shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
    number = f"{len(names)} {'run' if len(names) == 1 else 'runs'}"
    lines.append(f"{value} in {number}" + ("" if names is most else f" ({shown})"))
  return "; ".join(lines)


def _interval(intervals: Any) -> tuple[float | None, float | None]:
  """Returns the 95% interval of one replica's score, averaged over the replicas."""
  if not intervals or None in intervals:
    return None, None
  low, high = np.mean(intervals, axis=0).tolist()
  return low, high


def _mean(values: Any) -> float | None:
  return float(np.mean(values)) if values else None


def _least(values: Any) -> int | None:
  return min(values) if values else None
