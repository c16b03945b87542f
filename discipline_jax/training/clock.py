"""Measures how fast a run trains, and what share of its time, over all its starts, went into updates that count.

A start that ends before it is ready for its first update is not counted. Of a start that was killed, what came after
its last line is not known.
"""

import json
import time
from collections.abc import Callable

import jax
import numpy as np

from discipline_jax.files.growing import Growing, read_records
from discipline_jax.files.log_errors import explained
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_file

FILE = "starts.jsonl"


class Clock:
  """Adds up the time of a run and of its updates, and notes both in `starts.jsonl`, a line at a time.

  Only the first process reads and writes it.

  Raises:
    RunFailed: from every method that writes, if the file cannot be written.
  """

  def __init__(self, workdir: Path, first_step: int, started: float, work: Callable[[int], int]):
    """Begins to measure a start of the run, and reads what earlier starts noted.

    Args:
      workdir: directory of the run.
      first_step: updates made before, and not lost.
      started: `time.perf_counter()` when this start began, before it read its data.
      work: updates made -> examples or tokens of the next update, of all replicas.
    """
    self._started, self._work = started, work
    self._files = Growing(workdir)
    self._path = self._files.path / FILE
    self._updates, self._rates = 0.0, list[float]()
    is_first = jax.process_index() == 0
    lines = read_records(workdir / FILE) if is_first else []
    self._number = 1 + max((line["start"] for line in lines), default=-1)
    self._before = _whole(lines, first_step)
    # A version that kept no such file may have begun the run.
    self._is_known = (lines[0]["step"] if lines else first_step) == 0
    if is_first:
      with explained(self._path), whole_file(self._path, text=True) as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    self.note(first_step)

  def add(self, step: int, seconds: float) -> None:
    """Adds the time of an update, which was the one with number `step`."""
    self._updates += seconds
    self._rates.append(self._work(step - 1) / seconds)

  def note(self, step: int) -> None:
    """Writes a line, after the update with number `step`."""
    if jax.process_index() != 0:
      return
    numbers = {
      "start": self._number,
      "step": step,
      "seconds": self._elapsed,
      "updates": self._updates,
    }
    with explained(self._path), self._path.open("a", encoding="utf-8") as file:
      file.write(json.dumps(numbers) + "\n")
    with explained(self._path):
      self._files.send()

  def close(self) -> None:
    """Writes the last lines to where they are kept."""
    if jax.process_index() == 0:
      with explained(self._path):
        self._files.close()

  @property
  def rate(self) -> float | None:
    """The median of the work per second, over the updates of this start; None for fewer than two."""
    # Without the first update, which begins to read and may compile.
    return float(np.median(self._rates[1:])) if len(self._rates) > 1 else None

  @property
  def seconds(self) -> float:
    """The time of all starts up to now."""
    return self._before[0] + self._elapsed

  @property
  def goodput(self) -> float | None:
    """The share of the time of all starts that went into updates that count; None if a start was not measured."""
    return (self._before[1] + self._updates) / self.seconds if self._is_known else None

  @property
  def _elapsed(self) -> float:
    return time.perf_counter() - self._started


def _whole(lines: list[dict], first_step: int) -> tuple[float, float]:
  """Returns the time of earlier starts, and of those of their updates that were not made again.

  Args:
    lines: what the starts noted, in order; the first line of each has the step at which it began.
    first_step: the step at which the next start begins.
  """
  starts: dict[int, list[dict]] = {}
  for line in lines:
    starts.setdefault(line["start"], []).append(line)
  seconds, updates, limit = 0.0, 0.0, first_step
  for own in reversed(starts.values()):
    seconds += own[-1]["seconds"]
    updates += max((line["updates"] for line in own if line["step"] <= limit), default=0.0)
    limit = min(limit, own[0]["step"])
  return seconds, updates
