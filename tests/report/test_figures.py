"""Tests figures of reports."""

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from discipline_jax.report.figures import bar_panels
from discipline_jax.report.tables import Cell, Table


def test_long_names_beside_bars_are_whole_and_inside_the_picture():
  names = [f"scratch minilm, random_mapping, trains {what}" for what in ("head", "norms")]
  rows = tuple((name, (Cell(50.0, 1.0, 2, None, "run"),)) for name in names)
  (panel,) = bar_panels([Table("DNA", "test", (("splice", "accuracy"),), rows)])

  figure = Figure(figsize=(4.4, panel.height))
  FigureCanvasAgg(figure)
  panel.draw(axes := figure.add_axes((panel.margin / 4.4, 0.3, 0.3, 0.6)))
  labels = axes.get_yticklabels()
  assert [" ".join(label.get_text().split()) for label in labels] == names
  figure.canvas.draw()
  assert min(label.get_window_extent().x0 for label in labels) >= 0
