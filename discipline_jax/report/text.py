"""Writes tables as Markdown and LaTeX."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from discipline_jax.report.content import Content
from discipline_jax.report.tables import Cell, Table

NOTHING = "-"  # stands for a number that is not there


def markdown(content: Content) -> str:
  """Returns the verdicts, all tables, the comparisons with scratch, the analyses, and what is missing, as Markdown."""
  blocks = []
  for verdict in content.verdicts:
    blocks += [f"## Answer: {_escaped(verdict.title)}", *map(_escaped, verdict.sentences)]
    blocks += [_escaped_table(verdict.table), "It cannot tell", _markdown_list(verdict.limits)]
  blocks.append(
    "Scores are times 100: mean ± standard deviation (runs); the best of a column is bold."
  )
  for table in content.tables:
    header = ["model", *(f"{task}, {metric}" for task, metric in table.columns)]
    rows = [[_escaped(variant), *map(_markdown_cell, cells)] for variant, cells in table.rows]
    blocks += [f"## {table.title}", _markdown_table(header, rows)]
  if content.sentences:
    blocks += ["## In words", _markdown_list(content.sentences)]
  for title, frame in (
    ("Against scratch, by task", content.comparisons.by_task),
    ("Against scratch, over tasks", content.comparisons.over_tasks),
  ):
    if len(frame):
      header, rows = comparison_rows(frame)
      blocks += [f"## {title}", _escaped_table([header, *rows])]
  for one in content.analyses:
    blocks += [f"## {_escaped(one.title)} ({_escaped(one.name)})", _escaped_table(one.table)]
    blocks += [_markdown_list(one.notes)] * bool(one.notes)
  unfinished = content.collected.tree.unfinished
  missing = [": ".join(filter(None, [one.name, one.state, one.reason])) for one in unfinished]
  if content.notes or missing:
    blocks += ["## Notes", _markdown_list([*content.notes, *missing])]
  return "\n\n".join(blocks) + "\n"


def _markdown_list(texts: Sequence[str]) -> str:
  return "\n".join(f"- {_escaped(text)}" for text in texts)


def _escaped_table(table: Sequence[Sequence[str]]) -> str:
  """Writes rows of plain text, the first one the head."""
  return _markdown_table(list(table[0]), [list(map(_escaped, row)) for row in table[1:]])


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
