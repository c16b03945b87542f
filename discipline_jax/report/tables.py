"""Lays scores out as the paper does: a table for each discipline, a row for each model, a column for each task."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from discipline_jax.report import paper
from discipline_jax.report.collect import Collected
from discipline_jax.report.labels import AVERAGES, DISCIPLINES, paper_split

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
  number: paper.Number | None
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
  rows = collected.rows[collected.rows["mode"] == "finetune"]
  tables = []
  for discipline in DISCIPLINES:
    own = rows[rows["discipline"] == discipline]
    is_test = own["part"] != "validation"
    for part, chosen in (("test", own[is_test]), ("validation", own[~is_test])):
      if len(chosen) and not (discipline == "text" and part == "validation"):
        tables.append(_table(discipline, part, chosen, collected))
  return tables


def _table(discipline: str, part: str, rows: Any, collected: Collected) -> Table:
  average, order = AVERAGES.get(discipline, ("", ()))
  found = dict(zip(rows["task"], rows["metric"], strict=True))
  tasks = [
    *(task for task in order if task in found),
    *(task for task in found if task not in order),
  ]
  columns = [(task, found[task]) for task in tasks]
  grid: dict[str, list[Cell | None]] = {}
  by_run = {run.name: run for run in collected.tree.runs}
  for variant in rows["variant"].unique():
    own = rows[rows["variant"] == variant]
    records = {row.task: row for row in own.itertuples()}
    grid[variant] = [_cell(records[task]) if task in records else None for task in tasks]
    if average and len(tasks) > 1:
      first = next(iter(records.values())).run
      number = None
      if set(tasks) == set(order):
        labels, split = collected.names[first].labels, paper_split(by_run[first], part)
        number = paper.find(labels, average, "average", split)
      grid[variant].append(_average(grid[variant], [one.runs for one in records.values()], number))
  if average and len(tasks) > 1:
    columns.append((AVERAGE, f"of {len(tasks)}"))
  return Table(discipline, part, tuple(columns), _with_best(grid))


def _cell(row: Any) -> Cell:
  number = None
  if not math.isnan(row.paper_mean):
    std = None if math.isnan(row.paper_std) else row.paper_std
    number = paper.Number(row.paper_mean, std, row.paper_source)
  return Cell(
    row.mean,
    row.std if row.replicas > 1 else None,
    row.replicas,
    number,
    row.run,
    ("collapsed",) if row.collapsed else (),
  )


def _average(
  cells: Sequence[Cell | None], runs: Sequence[list[float]], number: paper.Number | None
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
