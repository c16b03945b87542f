"""Says in words how far one model is above another, and how certain that is."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Difference:
  """The difference of the test scores of two models, with its 95% intervals.

  Attributes:
    first, second: names of the models.
    mean: mean over the seeds of the first one's score minus the second one's.
    by_samples: the paired bootstrap over test samples, all seeds together.
    by_seeds: Student's over the seeds; None if all seeds have the same difference, which says nothing of others.
  """

  first: str
  second: str
  mean: float
  by_samples: tuple[float, float]
  by_seeds: tuple[float, float] | None

  @property
  def is_told_apart(self) -> bool:
    """Tells whether the interval over samples leaves out 0."""
    return not self.by_samples[0] <= 0 <= self.by_samples[1]

  @property
  def is_stable(self) -> bool:
    """Tells whether the interval over seeds leaves out 0, too, on the same side."""
    if self.by_seeds is None or not self.is_told_apart:
      return False
    return self.by_seeds[0] > 0 if self.mean > 0 else self.by_seeds[1] < 0

  @property
  def where(self) -> str:
    """Says how far the first one is above or below the second one, or that it is level with it."""
    if self.mean == 0:
      return "level with"
    return f"{number(abs(self.mean))} {'above' if self.mean > 0 else 'below'}"

  @property
  def intervals(self) -> str:
    """Names both intervals."""
    over_seeds = (
      "the seeds all differ by the same, so there is none over seeds"
      if self.by_seeds is None
      else f"Student's over seeds {ends(self.by_seeds)}"
    )
    return f"95% interval {ends(self.by_samples)}, paired over samples; {over_seeds}"

  @property
  def meaning(self) -> str:
    """Says what the intervals allow to conclude."""
    if not self.is_told_apart:
      return "The interval over samples holds 0: these runs do not tell the two apart."
    if self.is_stable:
      return "Both intervals leave out 0, so neither other samples nor other seeds are likely to turn it round."
    return (
      "The interval over samples leaves out 0, but that over seeds"
      + (" says nothing" if self.by_seeds is None else " does not")
      + ": it holds for these seeds, and others may turn it round."
    )


def number(value: float) -> str:
  """Writes a score or a difference with one decimal, and with more where it would look like 0."""
  return f"{value:.1f}" if abs(value) >= 0.1 or value == 0 else f"{value:.1g}"


def ends(interval: tuple[float, float]) -> str:
  """Writes the ends of an interval."""
  return f"{number(interval[0])} to {number(interval[1])}"
