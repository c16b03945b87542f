"""Notes the signals that ask a run to stop: SIGTERM by the platform, SIGINT by the user."""

import signal

import jax
import numpy as np
from jax.experimental import multihost_utils

# Updates between two times that the processes of a run compare their signals.
AGREE_EVERY = 10


class Signals:
  """A context manager that notes SIGTERM and the first SIGINT, so that the run can stop between two updates.

  A second SIGINT raises KeyboardInterrupt at once.
  """

  def __init__(self) -> None:
    self._received = 0

  def __enter__(self) -> "Signals":
    self._before = {
      number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)
    }
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def received(self, step: int) -> int:
    """Returns the number of the signal to stop for after update `step`, or 0.

    All processes of a run get the same answer, for they must save the same step. They compare notes every AGREE_EVERY
    updates only, because comparing blocks until the devices have finished the current update.
    """
    if jax.process_count() == 1:
      return self._received
    if step % AGREE_EVERY:
      return 0
    return int(np.max(multihost_utils.process_allgather(np.int32(self._received))))

  def _note(self, number: int, _) -> None:
    if number == signal.SIGINT and self._received == signal.SIGINT:
      raise KeyboardInterrupt
    self._received = number
