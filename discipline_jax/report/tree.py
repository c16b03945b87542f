"""Finds the finished runs below a folder, and what is missing there; names files that cannot be read."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from discipline_jax.errors import UserError

_MODES = ("finetune", "pretrain")
_LOG = "metrics.jsonl"  # which only the folder of one run has


@dataclasses.dataclass(frozen=True)
class Run:
  """A finished run.

  Attributes:
    name: its folder below the tree, `.` if the tree is the run.
    path: its folder.
    mode: finetune or pretrain.
    result: content of its result.json.
    config: content of its config.json; empty if that cannot be read.
    labels: what the study's study.json says of it; empty without one.
  """

  name: str
  path: pathlib.Path
  mode: str
  result: Mapping[str, Any]
  config: Mapping[str, Any]
  labels: Mapping[str, Any]

  @property
  def parts(self) -> list[str]:
    """The parts that a fine-tuning was scored on: validation, test, and further ones."""
    return ["validation", *(name for name in self.result if name.startswith("test"))]

  @property
  def seeds(self) -> list[int] | None:
    """The seeds of the replicas; None if there is no config to tell them."""
    first = self.config.get("seed")
    replicas = len(self.result["validation"].get("runs", [0]))  # a pre-training has one
    return [first + i for i in range(replicas)] if isinstance(first, int) else None


@dataclasses.dataclass(frozen=True)
class Unfinished:
  """A cell of a study, or the folder of a run, without a result.

  Attributes:
    name: its folder below the tree.
    state: failed, begun (and stopped, or still running) or missing.
    reason: why it failed; empty otherwise.
  """

  name: str
  state: str
  reason: str = ""


@dataclasses.dataclass(frozen=True)
class Tree:
  """Lists what is below a folder.

  Attributes:
    path: the folder.
    runs: the finished runs, in the order of study.json, then by name.
    unfinished: what has no result, in the same order.
    notes: files that were left out, one line each.
  """

  path: pathlib.Path
  runs: tuple[Run, ...]
  unfinished: tuple[Unfinished, ...]
  notes: tuple[str, ...]


def read(folder: pathlib.Path) -> Tree:
  """Returns the runs below a folder; raises UserError if it is no folder, or has no finished run."""
  if not folder.is_dir():
    raise UserError(f"no folder {folder}; give the workdir of a study, or a folder with runs in it")
  notes: list[str] = []
  cells: dict[str, Mapping[str, Any]] = {}
  reasons: dict[str, str] = {}
  runs: dict[str, Run] = {}
  begun: list[str] = []
  for path in _folders(folder):
    if path == folder / "report":
      continue
    for name, fields in _cells(path / "study.json", notes).items():
      cells[_name(path / name, folder)] = fields
    for name, reason in _reasons(path / "failed.json", notes).items():
      reasons[_name(path / name, folder)] = reason
    name = _name(path, folder)
    run = _run(path, name, notes)
    if run is not None:
      runs[name] = run
    elif _is_begun(path):
      begun.append(name)
  order = [*cells, *sorted({*runs, *begun} - cells.keys())]
  if not runs:
    left_out = f" ({'; '.join(notes)})" if notes else ""
    raise UserError(f"no finished run{left_out}, {folder}; wait for one, or give another folder")
  return Tree(
    folder,
    tuple(
      dataclasses.replace(runs[name], labels=cells.get(name, {})) for name in order if name in runs
    ),
    tuple(_unfinished(name, begun, reasons) for name in order if name not in runs),
    tuple(notes),
  )


def read_json(path: pathlib.Path) -> Mapping[str, Any]:
  """Returns the object in a JSON file; raises ValueError with what is wrong, or OSError."""
  try:
    content = json.loads(path.read_text(encoding="utf-8"))
  except UnicodeDecodeError:
    raise ValueError("not UTF-8") from None
  except json.JSONDecodeError as error:
    raise ValueError(f"not JSON, line {error.lineno}") from None
  except RecursionError:
    raise ValueError("nested too deeply") from None
  if not isinstance(content, dict):
    raise ValueError("not an object")
  return content


def results(
  folder: pathlib.Path, mode: str
) -> Iterator[tuple[pathlib.Path, str, Mapping[str, Any]]]:
  """Yields what finished with a mode below a folder: its folder, the name below the tree, and its result.json.

  Files that cannot be read are passed over; `read` tells of them.
  """
  for path in _folders(folder):
    if path == folder / "report" or not (path / "result.json").exists():
      continue
    with contextlib.suppress(OSError, ValueError):
      result = read_json(path / "result.json")
      if result.get("mode") == mode:
        yield path, _name(path, folder), result


def _folders(folder: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a folder and those below it, but nothing inside of a run or of hidden folders."""
  for place, names, files in os.walk(folder):
    names[:] = [] if _LOG in files else sorted(name for name in names if not name.startswith("."))
    yield pathlib.Path(place)


def _name(path: pathlib.Path, folder: pathlib.Path) -> str:
  return path.relative_to(folder).as_posix()


def _cells(path: pathlib.Path, notes: list[str]) -> Mapping[str, Mapping[str, Any]]:
  """Returns the labels of a study's cells, of those whose run can be shown."""
  content = optional_json(path, notes)
  cells = content.get("cells", {})
  try:
    return {name: _labels(cell) for name, cell in cells.items() if cell["mode"] in _MODES}
  except (AttributeError, KeyError, TypeError):
    notes.append(f"not the cells of a study, {path}; left out")
    return {}


def _labels(cell: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns the labels of a cell; raises TypeError if one cannot be a label."""
  labels = cell.get("labels", {})
  for name, value in labels.items():
    kinds = int if name == "step" else str | int | float
    if not isinstance(value, kinds):
      raise TypeError(name)
  return labels


def _reasons(path: pathlib.Path, notes: list[str]) -> Mapping[str, str]:
  return {name: " ".join(str(line).split()) for name, line in optional_json(path, notes).items()}


def optional_json(path: pathlib.Path, notes: list[str]) -> Mapping[str, Any]:
  """Returns the object in a JSON file, an empty one if there is no file, or none that can be read."""
  if not path.exists():
    return {}
  try:
    return read_json(path)
  except (ValueError, OSError) as error:
    notes.append(f"{error}, {path}; left out")
    return {}


def _run(path: pathlib.Path, name: str, notes: list[str]) -> Run | None:
  """Returns the finished run of a folder, if it has one; notes a result that is none."""
  file = path / "result.json"
  if not file.exists():
    return None
  try:
    result = read_json(file)
    mode = result.get("mode")
    if isinstance(mode, str) and mode not in _MODES:
      return None  # of a study, a search, or the like: its runs are in folders of their own
    _check(result)
  except (ValueError, OSError) as error:
    notes.append(f"{error}, {file}; left out")
    return None
  return Run(name, path, result["mode"], result, optional_json(path / "config.json", notes), {})


def _check(result: Mapping[str, Any]) -> None:
  """Raises ValueError if a result lacks what a report needs."""
  _require(result.get("mode") in _MODES, "mode")
  _require(isinstance(result.get("device"), str), "device")
  _require(isinstance(result.get("versions"), dict), "versions")
  _require(isinstance(result.get("steps"), int), "steps")
  _require(isinstance(result.get("validation"), dict), "validation")
  if result["mode"] == "pretrain":
    _require(all(map(_is_number, result["validation"].values())), "validation")
    _require(_is_number(result["validation"].get("loss")), "validation.loss")
    return
  for field in ("task", "metric", "init", "token_map"):
    _require(isinstance(result.get(field), str), field)
  _require("test" in result, "test")
  for part in ("validation", *(name for name in result if name.startswith("test"))):
    scores = result[part]
    _require(isinstance(scores, dict), part)
    runs = scores.get("runs")
    _require(_is_number(scores.get("mean")) and _is_number(scores.get("std")), f"{part}.mean")
    _require(isinstance(runs, list) and len(runs) > 0, f"{part}.runs")
    _require(all(map(_is_number, runs)), f"{part}.runs")
    _require(len(runs) == result.get("replicas"), f"{part}.runs")
    for field in ("samples", "constant", "balanced_accuracy", "in_training"):
      _require(_are_numbers(scores.get(field, []), len(runs)), f"{part}.{field}")
    intervals = scores.get("intervals", [])
    _require(isinstance(intervals, list), f"{part}.intervals")
    _require(all(one is None or _are_numbers(one, 2) for one in intervals), f"{part}.intervals")


def _require(condition: bool, field: str) -> None:
  if not condition:
    raise ValueError(f"no result of a run ({field})")


def _is_number(value: Any) -> bool:
  return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_numbers(values: Any, number: int) -> bool:
  """Returns whether `values` is a list of so many numbers, or of none where an older version wrote none."""
  return isinstance(values, list) and len(values) in (0, number) and all(map(_is_number, values))


def _is_begun(path: pathlib.Path) -> bool:
  """Returns whether the folder is that of a run without a result."""
  if (path / "result.json").exists() or not (path / "config.json").exists():
    return False
  try:
    return read_json(path / "config.json").get("mode") in _MODES
  except (ValueError, OSError):
    return False


def _unfinished(name: str, begun: list[str], reasons: Mapping[str, str]) -> Unfinished:
  if name in reasons:
    return Unfinished(name, "failed", reasons[name])
  return Unfinished(name, "begun" if name in begun else "missing")
