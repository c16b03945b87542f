"""Makes the page of a report: one HTML file that needs nothing but itself."""

from typing import Any

import jinja2
import markupsafe
from matplotlib.colors import to_hex

from discipline_jax.report.collect import link
from discipline_jax.report.compare import RESAMPLES
from discipline_jax.report.content import Content
from discipline_jax.report.figures import Panel, inline_svg
from discipline_jax.report.labels import column
from discipline_jax.report.text import NOTHING, comparison_rows
from discipline_jax.report.tree import Run

_DASHES = ("none", "6 3", "1.5 2.5", "6 2 1.5 2")


def render(content: Content) -> str:
  """Returns the page. All text that comes from files is escaped."""
  environment = jinja2.Environment(
    loader=jinja2.PackageLoader("discipline_jax.report", "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  tree = content.collected.tree
  pictures = {
    name: [_picture(panel, f"{name}-{i}") for i, panel in enumerate(panels)]
    for name, panels in content.panels.items()
  }
  shown = {name for panel in content.panels["curves"] for name in panel.variants}
  return environment.get_template("page.html").render(
    # A whole comparison is about one task, and its folder has the name of a config.
    title=next((one.title for one in content.verdicts if one.name == "."), tree.path.resolve().name)
    or "runs",
    notes=content.notes,
    unfinished=tree.unfinished,
    verdicts=content.verdicts,
    tables=content.tables,
    comparisons=_comparisons(content),
    sentences=content.sentences,
    analyses=content.analyses,
    resamples=RESAMPLES,
    pictures=pictures,
    switches=[_switch(name, i) for name, i in content.colours.items() if name in shown],
    runs={run.name: _run(run, i, content) for i, run in enumerate(tree.runs, 1)},
  )


def _picture(panel: Panel, prefix: str) -> tuple[str, Any]:
  """Returns the title of a panel, and the panel as SVG, in which matplotlib has escaped all text."""
  return panel.title, markupsafe.Markup(inline_svg(panel, prefix))


def _switch(name: str, index: int) -> dict[str, Any]:
  dash = _DASHES[index // 10 % len(_DASHES)]
  return {"name": name, "index": index, "colour": to_hex(f"C{index % 10}"), "dash": dash}


def _comparisons(content: Content) -> list[dict[str, Any]]:
  """Returns the tables of comparisons: a title, a header, and rows of cells, each with the run that it links to."""
  by_task, over_tasks = content.comparisons.by_task, content.comparisons.over_tasks
  tables = []
  for title, frame in (("By task", by_task), ("Over tasks", over_tasks)):
    if len(frame):
      header, rows = comparison_rows(frame)
      links: list[dict[str, str]] = [{} for _ in rows]
      if frame is by_task:
        pairs = zip(frame["run"], frame["against"], strict=True)
        links = [{"score": run, "scratch": baseline} for run, baseline in pairs]
      cells = [
        [(cell, link_of.get(name)) for cell, name in zip(row, header, strict=True)]
        for row, link_of in zip(rows, links, strict=True)
      ]
      tables.append({"title": title, "header": header, "rows": cells})
  return tables


def _run(run: Run, number: int, content: Content) -> dict[str, Any]:
  """Returns what the page says of a run, and where its files are."""
  result = run.result
  names = content.collected.names.get(run.name)
  if names:
    what = f"{column(run, 'validation')}: {names.variant}"
    scores = [f"{part} {result[part]['mean']:.1f}" for part in run.parts]
  else:
    what = f"pre-training on {result.get('corpus')}"
    scores = [f"{name} {value:.3f}" for name, value in result["validation"].items()]
  seeds = run.seeds
  return {
    "number": number,
    "name": run.name,
    "what": what,
    "scores": ", ".join(scores),
    "seeds": NOTHING if seeds is None else ", ".join(map(str, seeds)),
    "steps": result["steps"],
    "device": result["device"],
    "versions": result["versions"],
    "result": link(run, "result.json"),
    "config": link(run, "config.json") if run.config else None,
    "collapsed": bool(result.get("collapsed")),
    "network": result.get("network") or NOTHING,
  }
