"""Holds what a report shows, on its page and as Markdown."""

import dataclasses
from collections.abc import Mapping, Sequence

from discipline_jax.report.analyses import Analysis
from discipline_jax.report.collect import Collected
from discipline_jax.report.compare import Comparisons
from discipline_jax.report.figures import Panel
from discipline_jax.report.tables import Table
from discipline_jax.report.verdicts import Verdict


@dataclasses.dataclass(frozen=True)
class Content:
  """Holds what the page and the Markdown of a report show.

  Attributes:
    collected: the runs.
    verdicts: of the finished comparisons.
    comparisons: with scratch.
    sentences: one about each of them.
    tables: of scores.
    panels: of the figures `bars`, `curves` and `steps`.
    colours: the number of each variant among the curves.
    analyses: the finished analyses.
    notes: what a reader must know before the numbers, one line each.
  """

  collected: Collected
  verdicts: Sequence[Verdict]
  comparisons: Comparisons
  sentences: Sequence[str]
  tables: Sequence[Table]
  panels: Mapping[str, Sequence[Panel]]
  colours: Mapping[str, int]
  analyses: Sequence[Analysis]
  notes: Sequence[str]
