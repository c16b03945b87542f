"""Lays scores out as the paper does: a table for each discipline, a row for each model, a column for each task."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from discipline_jax.report.collect import Collected
from discipline_jax.report.labels import AVERAGES, DISCIPLINES, paper_split
from discipline_jax.report.paper import Number, find_number

AVERAGE = "average"


@dataclasses.dataclass(frozen=True)
class Cell:
  """A score in a table.

  Attributes:
    mean: over the runs.
    std: their standard deviation; None for one run.
    replicas: how many runs, one for each seed.
    number: the paper's number, if it has one.
    run: name of the run; None for an average over tasks.
    marks: what is wrong with it, `collapsed`.
    is_best: whether no other row of the column has a higher mean.
  """

  mean: float
  std: float | None
  replicas: int
  number: Number | None
  run: str | None
  marks: tuple[str, ...] = ()
  is_best: bool = False

  @property
  def text(self) -> str:
    """The mean, the deviation and, in brackets, the number of runs."""
    deviation = "" if self.std is None else f" ± {self.std:.1f}"
    return f"{self.mean:.1f}{deviation} ({self.replicas})"

  @property
  def beside(self) -> str:
    """The paper's number and how far the score is above it; empty if there is none."""
    if self.number is None:
      return ""
    return f"paper {self.number.mean:.1f}, {self.mean - self.number.mean:+.1f}"


@dataclasses.dataclass(frozen=True)
class Table:
  """The scores of one discipline on one part.

  Attributes:
    discipline: one of `labels.DISCIPLINES`.
    part: validation or test.
    columns: tasks with their metric and, where the paper has it, `average`.
    rows: for each variant its name and a cell for each column, None where there is no finished run.
  """

  discipline: str
  part: str
  columns: tuple[tuple[str, str], ...]
  rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]

  @property
  def title(self) -> str:
    """The discipline and the part."""
    return f"{self.discipline[0].upper()}{self.discipline[1:]}, {self.part}"


def make_tables(collected: Collected) -> list[Table]:
  """Returns the tables of all disciplines, on test and on validation; text is tested on its validation set."""
  rows = [row for row in collected.rows.itertuples() if row.mode == "finetune"]
  tables = []
  for discipline in DISCIPLINES:
    for part in ("test", "validation"):
      if discipline == "text" and part == "validation":
        continue
      is_test = part == "test"
      own = [
        row
        for row in rows
        if row.discipline == discipline and (row.part != "validation") == is_test
      ]
      if own:
        tables.append(_table(discipline, part, own, collected))
  return tables


def _table(discipline: str, part: str, rows: Sequence[Any], collected: Collected) -> Table:
  average, order = AVERAGES.get(discipline, ("", ()))
  found = {row.task: row.metric for row in rows}
  tasks = [task for task in order if task in found]
  tasks += [task for task in found if task not in order]
  columns = [(task, found[task]) for task in tasks]
  has_average = bool(average) and len(tasks) > 1
  by_run = {run.name: run for run in collected.tree.runs}
  records: dict[str, dict[str, Any]] = {}
  for row in rows:
    records.setdefault(row.variant, {})[row.task] = row
  grid: dict[str, list[Cell | None]] = {}
  for variant, own in records.items():
    grid[variant] = [_cell(own[task]) if task in own else None for task in tasks]
    if has_average:
      number = None
      if set(tasks) == set(order):
        run = by_run[next(iter(own.values())).run]
        labels, split = collected.names[run.name].labels, paper_split(run, part)
        number = find_number(labels, average, "average", split)
      grid[variant].append(_average(grid[variant], [one.runs for one in own.values()], number))
  if has_average:
    columns.append((AVERAGE, f"of {len(tasks)}"))
  return Table(discipline, part, tuple(columns), _with_best(grid))


def _cell(row: Any) -> Cell:
  number = None
  if not math.isnan(row.paper_mean):
    std = None if math.isnan(row.paper_std) else row.paper_std
    number = Number(row.paper_mean, std, row.paper_source)
  return Cell(
    row.mean,
    row.std if row.replicas > 1 else None,
    row.replicas,
    number,
    row.run,
    ("collapsed",) if row.collapsed else (),
  )


def _average(
  cells: Sequence[Cell | None], runs: Sequence[list[float]], number: Number | None
) -> Cell | None:
  """Returns the average over tasks, with its deviation over seeds; None where a task is missing."""
  means = [cell.mean for cell in cells if cell is not None]
  if len(means) < len(cells):
    return None
  replicas = min(map(len, runs))
  has_spread = replicas > 1 and replicas == max(map(len, runs))
  std = float(np.mean(runs, axis=0).std(ddof=1)) if has_spread else None
  marks = tuple(dict.fromkeys(mark for cell in cells if cell is not None for mark in cell.marks))
  return Cell(float(np.mean(means)), std, replicas, number, None, marks)


def _with_best(
  grid: dict[str, list[Cell | None]],
) -> tuple[tuple[str, tuple[Cell | None, ...]], ...]:
  columns = list(zip(*grid.values(), strict=True))
  best = [max((cell.mean for cell in column if cell is not None), default=0) for column in columns]
  return tuple(
    (
      variant,
      tuple(
        cell
        if cell is None or len(grid) == 1
        else dataclasses.replace(cell, is_best=cell.mean == best[i])
        for i, cell in enumerate(cells)
      ),
    )
    for variant, cells in grid.items()
  )
