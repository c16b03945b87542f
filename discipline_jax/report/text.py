"""Writes tables as Markdown and LaTeX."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from discipline_jax.report.analyses import Analysis
from discipline_jax.report.compare import Comparisons
from discipline_jax.report.tables import Cell, Table
from discipline_jax.report.tree import Unfinished

NOTHING = "-"  # stands for a number that is not there


def markdown(
  tables: Sequence[Table],
  comparisons: Comparisons,
  sentences: Sequence[str],
  analyses: Sequence[Analysis],
  unfinished: Sequence[Unfinished],
  notes: Sequence[str],
) -> str:
  """Returns all tables, the comparisons with scratch, the analyses, and what is missing, as Markdown."""
  blocks = ["Scores are times 100: mean ± standard deviation (runs); the best of a column is bold."]
  for table in tables:
    header = ["model", *(f"{task}, {metric}" for task, metric in table.columns)]
    rows = [[_escaped(variant), *map(_markdown_cell, cells)] for variant, cells in table.rows]
    blocks += [f"## {table.title}", _markdown_table(header, rows)]
  if sentences:
    blocks += ["## In words", "\n".join(f"- {_escaped(one)}" for one in sentences)]
  for title, frame in (
    ("Against scratch, by task", comparisons.by_task),
    ("Against scratch, over tasks", comparisons.over_tasks),
  ):
    if len(frame):
      header, rows = comparison_rows(frame)
      escaped = [list(map(_escaped, row)) for row in rows]
      blocks += [f"## {title}", _markdown_table(header, escaped)]
  for one in analyses:
    cells = [list(map(_escaped, row)) for row in one.table]
    blocks += [
      f"## {_escaped(one.title)} ({_escaped(one.name)})",
      _markdown_table(one.table[0], cells[1:]),
    ]
    blocks += ["\n".join(f"- {_escaped(note)}" for note in one.notes)] * bool(one.notes)
  missing = [": ".join(filter(None, [one.name, one.state, one.reason])) for one in unfinished]
  if notes or missing:
    blocks += ["## Notes", "\n".join(f"- {_escaped(note)}" for note in (*notes, *missing))]
  return "\n\n".join(blocks) + "\n"


def _plain_cell(cell: Cell) -> str:
  return ", ".join(filter(None, [cell.text, cell.beside, *cell.marks]))


def comparison_rows(frame: Any) -> tuple[list[str], list[list[str]]]:
  """Returns the header and the cells of a table of `Comparisons`, as text."""
  if "probability" in frame:
    header = [
      "model",
      "discipline",
      "tasks",
      "difference",
      "95% over tasks",
      "P(better)",
      "95% of it",
    ]
    return header, [
      [
        row.variant,
        row.discipline,
        str(row.tasks),
        f"{row.difference:+.1f}",
        _ends(row.low, row.high),
        f"{row.probability:.2f}",
        f"{row.probability_low:.2f} to {row.probability_high:.2f}",
      ]
      for row in frame.itertuples()
    ]
  header = [
    *("task", "model", "score", "scratch", "difference", "seeds", "95% over seeds", "p, adjusted"),
    *("samples", "95% over samples", "updates until scratch's best", "remark"),
  ]
  return header, [
    [
      row.task if row.part != "validation" else f"{row.task} {row.part}",
      row.variant,
      f"{row.mean:.1f}",
      f"{row.scratch_mean:.1f}",
      f"{row.difference:+.1f}",
      str(len(row.seeds)),
      _ends(row.low_seeds, row.high_seeds),
      NOTHING if math.isnan(row.p_adjusted) else f"{row.p_adjusted:.3f}",
      _whole(row.samples),
      _ends(row.low_samples, row.high_samples),
      _updates(row),
      row.remark,
    ]
    for row in frame.itertuples()
  ]


def _ends(low: float, high: float) -> str:
  return NOTHING if math.isnan(low) else f"{low:+.1f} to {high:+.1f}"


def _whole(value: Any) -> str:
  return f"{value:,}" if isinstance(value, int | np.integer) else NOTHING


def _updates(row: Any) -> str:
  if not isinstance(row.scratch_updates, int | np.integer):
    return NOTHING
  ours = _whole(row.updates) if isinstance(row.updates, int | np.integer) else "never"
  return f"{ours} (scratch {row.scratch_updates:,})"


def _markdown_cell(cell: Cell | None) -> str:
  if cell is None:
    return NOTHING
  bold = f"**{cell.text}**"
  return _plain_cell(cell).replace(cell.text, bold, 1) if cell.is_best else _plain_cell(cell)


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  """Returns a table of cells that are Markdown themselves."""
  lines = [list(map(_escaped, header)), ["---"] * len(header), *rows]
  return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _escaped(text: str) -> str:
  return re.sub(r"([\\`*<|])", r"\\\1", " ".join(text.split()))


_LATEX = {
  **{sign: f"\\{sign}" for sign in "&%$#_{}"},
  "\\": r"\textbackslash{}",
  "~": r"\textasciitilde{}",
  "^": r"\textasciicircum{}",
  "±": r"$\pm$",
}


def latex(tables: Sequence[Table]) -> str:
  """Returns all tables for LaTeX with the package booktabs; below a score stands the paper's number."""
  lines = [r"% Needs \usepackage{booktabs}. Mean \pm standard deviation (runs), times 100."]
  for table in tables:
    header = ["", *(f"{task} ({metric})" for task, metric in table.columns)]
    lines += [
      r"\begin{table}",
      r"\centering",
      rf"\caption{{{latex_text(table.title)}: mean $\pm$ standard deviation (runs), and the paper's number}}",
      rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
      r"\toprule",
      " & ".join(map(latex_text, header)) + r" \\",
      r"\midrule",
    ]
    for variant, cells in table.rows:
      lines.append(" & ".join([latex_text(variant), *map(_latex_cell, cells)]) + r" \\")
      numbers = [cell.beside.removeprefix("paper ") if cell else "" for cell in cells]
      if any(numbers):
        lines.append(" & ".join([r"\quad paper, difference", *map(_math, numbers)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
  return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
  """Returns text in which LaTeX's special characters stand for themselves."""
  return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _latex_cell(cell: Cell | None) -> str:
  if cell is None:
    return "--"
  text = latex_text(cell.text)
  return rf"\textbf{{{text}}}" if cell.is_best else text


def _math(text: str) -> str:
  """Returns a pair of numbers with a minus sign that is not a hyphen."""
  return f"\\textit{{{text.replace('-', '$-$')}}}" if text else ""
