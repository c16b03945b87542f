"""Holds what a measure gives: rows of a table, lines for the terminal, and a figure."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator


@dataclasses.dataclass(frozen=True)
class Found:
  """Holds what a measure gives.

  Attributes:
    rows: of the table, each with the same columns; None is an undefined value.
    summary: rows of the table on the terminal, the first one its head.
    notes: what a reader must know before the numbers.
    draw: draws the figure.
  """

  rows: Sequence[dict[str, Any]]
  summary: Sequence[Sequence[str]]
  notes: Sequence[str]
  draw: Callable[[Figure], None]


def label_layers(axes: Axes) -> None:
  """Makes the horizontal axis one of layers, which have whole numbers."""
  axes.set_xlabel("layer")
  axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def text(value: float | None) -> str:
  """Writes a number for the terminal; `-` if it is not defined."""
  return "-" if value is None else f"{value:.4g}"
