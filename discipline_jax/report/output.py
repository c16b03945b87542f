"""Makes the content of every file of a report."""

import pathlib

from discipline_jax.files.copies import original
from discipline_jax.report.analyses import read_analyses
from discipline_jax.report.collect import collect_tree
from discipline_jax.report.compare import compare
from discipline_jax.report.content import Content
from discipline_jax.report.curves import read_all
from discipline_jax.report.figures import bar_panels, curve_panels, pictures, step_panels
from discipline_jax.report.page import render
from discipline_jax.report.sentences import sentences
from discipline_jax.report.tables import make_tables
from discipline_jax.report.text import latex, markdown
from discipline_jax.report.tree import read
from discipline_jax.report.verdicts import read_verdicts


def make(folder: pathlib.Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
  """Returns the files of the report on the runs below a folder, by name, and its sentences.

  Raises:
    UserError: no folder, or no finished run in it.
  """
  collected = collect_tree(read(folder))
  curves, notes = read_all(collected.tree.runs)
  comparisons = compare(collected, curves)
  said = sentences(comparisons)
  tables = make_tables(collected)
  names = [*(one.variant for one in collected.names.values())]
  names += [run.name for run in collected.tree.runs if run.mode == "pretrain"]
  colours = {name: i for i, name in enumerate(dict.fromkeys(names))}
  panels = {
    "bars": bar_panels(tables),
    "curves": curve_panels(collected, curves, colours),
    "steps": step_panels(collected),
  }
  verdicts, unread = read_verdicts(folder)
  analyses, left_out = read_analyses(folder)
  notes = [*collected.notes, *comparisons.notes, *notes, *unread, *left_out]
  notes = [original(one) for one in notes]
  content = Content(
    collected, verdicts, comparisons, said, tables, panels, colours, analyses, notes
  )
  files = {
    "runs.csv": collected.rows.to_csv(index=False),
    "comparisons.csv": comparisons.by_task.to_csv(index=False),
    "over_tasks.csv": comparisons.over_tasks.to_csv(index=False),
    "table.md": markdown(content),
    "table.tex": latex(tables),
    "index.html": render(content),
  }
  drawings = {
    f"{name}.{form}": picture
    for name, drawn in panels.items()
    if drawn
    for form, picture in pictures(drawn, colours if name == "curves" else {}).items()
  }
  return {name: one.encode() for name, one in files.items()} | drawings, said
