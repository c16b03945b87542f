"""Says in sentences how far each model is above or below scratch."""

import math

from discipline_jax.report.compare import Comparisons
from discipline_jax.report.difference import Difference


def sentences(comparisons: Comparisons) -> tuple[str, ...]:
  """Returns a sentence about each comparison with scratch, in the order of the table.

  Args:
    comparisons: see `compare`.
  """
  return tuple(map(_sentence, comparisons.by_task.itertuples()))


def _sentence(row) -> str:
  seeds = f"{len(row.seeds)} shared seed{'s' * (len(row.seeds) != 1)}"
  text = (
    f"{row.task}: {row.variant} has {row.metric} {row.mean:.1f}, scratch {row.scratch_mean:.1f}"
  )
  remark = f" ({row.remark})" if row.remark else ""
  if math.isnan(row.low_samples):
    return f"{text}{remark}; there are no predictions of both for the same samples to tell how certain that is."
  mean = 0.0 if abs(row.difference) < 1e-9 else float(row.difference)
  by_seeds = None if math.isnan(row.p_value) else (row.low_seeds, row.high_seeds)
  by = Difference(row.variant, "scratch", mean, (row.low_samples, row.high_samples), by_seeds)
  return f"{text}{remark}: {by.where} it, on {row.samples:,} test samples and {seeds} ({by.intervals}). {by.meaning}"
