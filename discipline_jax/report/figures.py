"""Draws the figures of a report: bars for each discipline, curves of training, scores against kept steps.

A figure is a list of panels. In a file all panels stand in one picture; in the page each is a picture of its own.
"""

import dataclasses
import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from discipline_jax.report.collect import Collected
from discipline_jax.report.curves import Curve
from discipline_jax.report.labels import column
from discipline_jax.report.tables import AVERAGE, Table

_INK = "#0a0b0c"  # of lines and text; in the page it becomes the colour of the text around it
_WIDTH, _HEIGHT = 4.4, 2.9  # inches of a panel, which a phone can show
_COLUMNS = 3
_STYLES = ("-", "--", ":", "-.")
_MARGIN, _BELOW, _TITLE = 0.68, 0.46, 0.3  # inches left of and below axes, and for a title above
_MOST_BANDS = 12  # in a panel; more hide each other
_LABEL_WIDTH, _LABEL_LINES = 26, 3  # characters and lines beside a bar
_LINE, _LETTER = 0.15, 0.075  # inches of them
_STYLE: Any = {
  **dict.fromkeys(
    ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK
  ),
  "svg.fonttype": "none",
  "svg.hashsalt": "report",
  "font.size": 9,
  "axes.titlesize": 10,
  "axes.spines.top": False,
  "axes.spines.right": False,
  "legend.framealpha": 0,
  "legend.fontsize": 8,
}


@dataclasses.dataclass(frozen=True)
class Panel:
  """One pair of axes.

  Attributes:
    title: stands above it.
    draw: draws it.
    height: in inches, without the title.
    margin: left of the axes, in inches.
    variants: names of what it shows, which can be switched off in the page.
  """

  title: str
  draw: Callable[[Axes], None]
  height: float = _HEIGHT
  margin: float = _MARGIN
  variants: tuple[str, ...] = ()


def bar_panels(tables: Sequence[Table]) -> list[Panel]:
  """Returns a panel for each discipline: the test scores of its variants, averaged over its tasks.

  Where the discipline has no average, or no variant has all tasks, each task has a panel.
  """
  panels = []
  for table in tables:
    if table.part != "test":
      continue
    names = [name for name, _ in table.columns]
    has_average = names[-1] == AVERAGE and any(cells[-1] for _, cells in table.rows)
    shown = (
      [len(names) - 1] if has_average else [i for i, name in enumerate(names) if name != AVERAGE]
    )
    for i in shown:
      cells = [(variant, row[i]) for variant, row in table.rows if row[i] is not None]
      title = f"{table.discipline}: {', '.join(table.columns[i])}"
      labels = [_lines(variant) for variant, _ in cells]
      height = 0.11 + _LINE * max(map(len, labels))
      widest = max(len(line) for label in labels for line in label)
      panels.append(
        Panel(title, _bars_of(cells), 0.75 + height * len(cells), 0.25 + _LETTER * widest)
      )
  return panels


def _bars_of(cells: Sequence[tuple[str, Any]]) -> Callable[[Axes], None]:
  def draw(axes: Axes) -> None:
    places = np.arange(len(cells))
    means = [cell.mean for _, cell in cells]
    deviations = [cell.std or 0 for _, cell in cells]
    axes.barh(places, means, xerr=deviations, height=0.7, color="C0", ecolor=_INK)
    papers = [(i, cell.number.mean) for i, (_, cell) in enumerate(cells) if cell.number]
    if papers:
      axes.plot([x for _, x in papers], [y for y, _ in papers], "D", color="C1")
    for place, mean in zip(places, means, strict=True):
      axes.text(0, float(place), f" {mean:.1f}", va="center", color="white")
    axes.set_yticks(places, [_plain("\n".join(_lines(variant))) for variant, _ in cells])
    axes.set(xlabel="score (◆: the paper)" if papers else "score", xlim=(min(0, *means), None))
    axes.invert_yaxis()

  return draw


def curve_panels(
  collected: Collected, found: Mapping[str, Mapping[str, Curve]], colours: Mapping[str, int]
) -> list[Panel]:
  """Returns for each task a panel of training losses and one of validation scores, then those of pre-training.

  Args:
    collected: the runs.
    found: the curves of each run, by its name and by split.
    colours: the number of each variant.
  """
  groups: dict[tuple[str, str], dict[str, Curve]] = {}
  for run in collected.tree.runs:
    for split in ("train", "validation"):
      if split not in found.get(run.name, {}):
        continue
      if run.mode == "finetune":
        task, variant = column(run, "validation"), collected.names[run.name].variant
        what = "loss" if split == "train" else run.result["metric"]
      else:
        task, variant, what = "pre-training", run.name, "loss"
      title = f"{task}: {what}, {'training' if split == 'train' else 'validation'}"
      groups.setdefault((title, what), {})[variant] = found[run.name][split].thinned()
  return [
    Panel(title, _curves_of(lines, what, number, colours), variants=tuple(lines))
    for number, ((title, what), lines) in enumerate(groups.items())
  ]


def _curves_of(
  lines: Mapping[str, Curve], label: str, number: int, colours: Mapping[str, int]
) -> Callable[[Axes], None]:
  def draw(axes: Axes) -> None:
    for variant, curve in lines.items():
      index = colours[variant]
      style = _line_style(index)
      (line,) = axes.plot(curve.steps, curve.mean, linewidth=1.4, **style)
      line.set_gid(f"curve-{index}-{number}-line")
      if len(curve.steps) == 1:
        line.set_marker("o")
      if len(curve.values) > 1 and len(lines) <= _MOST_BANDS:
        low, high = curve.values.min(0), curve.values.max(0)
        steps = np.concatenate([curve.steps, curve.steps[::-1]])
        (band,) = axes.fill(  # in less than half the time of `fill_between`
          steps, np.concatenate([low, high[::-1]]), color=style["color"], alpha=0.18, linewidth=0
        )
        band.set_gid(f"curve-{index}-{number}-band")
      if curve.without_context is not None:
        bound = axes.axhline(
          curve.without_context, color=style["color"], linewidth=1, linestyle=":"
        )
        bound.set_gid(f"curve-{index}-{number}-without-context")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.set(xlabel="updates", ylabel=_plain(label))

  return draw


def step_panels(collected: Collected) -> list[Panel]:
  """Returns a panel for each task on which networks from two or more steps of a pre-training were tested."""
  rows = collected.rows[(collected.rows["mode"] == "finetune")]
  rows = rows[rows["part"] != "validation"]
  panels = []
  for task in rows["task"].unique():
    own = rows[rows["task"] == task]
    series: dict[str, list[Any]] = {}
    for row in own[own["step"].notna()].itertuples():
      labels = [row.model, row.corpus, row.setting, row.fraction]
      name = ", ".join(dict.fromkeys(str(one) for one in labels if one is not None and one == one))
      series.setdefault(name, []).append(row)
    series = {
      name: sorted(one, key=lambda row: row.step) for name, one in series.items() if len(one) > 1
    }
    networks = {row.network for one in series.values() for row in one}
    scratch = [
      row for row in own.itertuples() if row.init == "scratch" and {row.network} == networks
    ]
    if series:
      panels.append(Panel(f"{task}, test", _steps_of(series, scratch[:1])))
  return panels


def _steps_of(
  series: Mapping[str, Sequence[Any]], scratch: Sequence[Any]
) -> Callable[[Axes], None]:
  def draw(axes: Axes) -> None:
    steps = sorted({int(row.step) for one in series.values() for row in one})
    place = {step: i for i, step in enumerate(steps)}  # evenly: they are powers, and often 0
    for name, rows in series.items():
      axes.errorbar(
        [place[int(row.step)] for row in rows],
        [row.mean for row in rows],
        yerr=[0 if row.std != row.std else row.std for row in rows],
        marker="o",
        capsize=3,
        label=_plain(name),
      )
    for row in scratch:
      axes.axhline(row.mean, color=_INK, linestyle="--", label="scratch")
    axes.set_xticks(range(len(steps)), [f"{step:,}" for step in steps])
    axes.set_xlim(-0.35, len(steps) - 0.65)
    axes.set(xlabel="updates of pre-training", ylabel=next(iter(series.values()))[0].metric)
    axes.legend()

  return draw


def pictures(panels: Sequence[Panel], legend: Mapping[str, int]) -> dict[str, bytes]:
  """Returns all panels in one picture with a legend below them, as `png` and `svg`, the same bytes each time.

  Args:
    panels: one or more.
    legend: the number of each variant that the legend shows; empty for none.
  """
  columns = min(_COLUMNS, len(panels))
  rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
  heights = [_TITLE + max(panel.height for panel in row) for row in rows]
  shown = {name: i for name, i in legend.items() if any(name in one.variants for one in panels)}
  below = 0.22 * math.ceil(len(shown) / columns)
  with matplotlib.rc_context(_STYLE):
    figure = Figure(figsize=(_WIDTH * columns, sum(heights) + below), dpi=150)
    top = sum(heights) + below
    for row, height in zip(rows, heights, strict=True):
      for i, panel in enumerate(row):
        _place(figure, panel, i * _WIDTH, top - _TITLE).set_title(_plain(panel.title))
      top -= height
    if shown:
      handles = [Line2D([], [], **_line_style(i)) for i in shown.values()]
      figure.legend(handles, map(_plain, shown), loc="lower center", ncols=columns)
    return {"png": png(figure), "svg": svg(figure).encode()}


def inline_svg(panel: Panel, prefix: str) -> str:
  """Returns a panel as an SVG element whose ids begin with `prefix`, but for those of curves.

  Text stays text, in the colour of the page. Coordinates are cut to a tenth of a point.
  """
  with matplotlib.rc_context(_STYLE):
    figure = Figure(figsize=(_WIDTH, panel.height))
    axes = _place(figure, panel, 0, panel.height)
    for patch in (figure.patch, axes.patch):
      patch.set_visible(False)
    text = svg(figure)
  text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
  text = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", text, count=1)
  text = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", text, count=1)
  text = re.sub(r' (?:d|x|y|transform)="[^"]*"', _cut, text)
  text = re.sub(r'\bid="(?!curve-)', f'id="{prefix}-', text)
  text = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", text)
  return text.replace(_INK, "currentColor")


def _place(figure: Figure, panel: Panel, left: float, top: float) -> Axes:
  """Draws a panel whose upper left corner is at `left` and `top`, in inches from the lower left one of the figure.

  Margins are given, not found by a layout, which draws everything several times.
  """
  width, height = figure.get_size_inches()
  axes = figure.add_axes(
    (
      (left + panel.margin) / width,
      (top - panel.height + _BELOW) / height,
      (_WIDTH - panel.margin - 0.12) / width,
      (panel.height - _BELOW - 0.08) / height,
    )
  )
  panel.draw(axes)
  return axes


def png(figure: Figure) -> bytes:
  """Returns a figure as a PNG file."""
  file = io.BytesIO()
  FigureCanvasAgg(figure).print_png(file)
  return file.getvalue()


def svg(figure: Figure) -> str:
  """Returns a figure as SVG, without a date."""
  file = io.StringIO()
  FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
  return file.getvalue()


def _cut(attribute: re.Match) -> str:
  return re.sub(r"(\d+\.\d)\d+", r"\1", attribute[0])


def _line_style(index: int) -> dict[str, Any]:
  return {"color": f"C{index % 10}", "linestyle": _STYLES[index // 10 % len(_STYLES)]}


def _lines(text: str) -> list[str]:
  return textwrap.wrap(text, _LABEL_WIDTH, max_lines=_LABEL_LINES, placeholder="…") or [""]


def _plain(text: str) -> str:
  """Returns text of which matplotlib reads nothing as mathematics."""
  return text.replace("$", r"\$")
