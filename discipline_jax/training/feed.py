"""Feeds batches from a reader to the device, and measures how long the device waits for them."""

import time
from collections.abc import Callable, Generator
from typing import Any


class Feed:
  """The batches of a run, each for one update."""

  def __init__(self, batches: Generator, update: Callable[[Any, int, Any], tuple[Any, dict]]):
    """Prepares a feed; nothing is read yet.

    Args:
      batches: the batches of the updates that are left.
      update: (state, updates made, batch) -> (state, metrics on the device).
    """
    self._batches, self._update = batches, update
    self._waits: list[float] = []
    self._running: dict = {}  # metrics of the update that the device computes
    self._started = 0.0

  def update(self, state, step: int) -> tuple[Any, list[dict]]:
    """Makes the next update, for `loop.run`."""
    clock = time.perf_counter()
    self._started = self._started or clock
    batch = next(self._batches)
    # The device only waits if it has nothing left to do. Since when is not known, so this is an upper bound.
    is_idle = all(value.is_ready() for value in self._running.values())
    self._waits.append(time.perf_counter() - clock if is_idle else 0)
    state, self._running = self._update(state, step, batch)
    return state, [self._running]

  def waiting(self) -> float | None:
    """Returns the largest share of the time that the device can have waited; None if there was no update."""
    if not self._waits:
      return None
    # Without the first batch, for which reading has to begin.
    return sum(self._waits[1:]) / (time.perf_counter() - self._started)

  def close(self) -> None:
    """Stops reading."""
    self._batches.close()
