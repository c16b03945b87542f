"""Being told to stop: SIGTERM by the platform, SIGINT by the user."""

import signal

import jax
import numpy as np
from jax.experimental import multihost_utils


class Stopped(Exception):
  """A signal ended the run after a checkpoint; run the same command again to go on."""

  def __init__(self, signum: int, step: int):
    super().__init__(f"stopped at step {step}, which is saved; run the same command to go on")
    self.exit_code = 130 if signum == signal.SIGINT else 75


class Signals:
  """A context manager that notes SIGTERM and the first SIGINT, to be acted on between two steps.

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

  def received(self) -> int:
    """The signal's number, or 0; all processes of a run must ask together, and get the same answer."""
    if jax.process_count() == 1:
      return self._received
    return int(np.max(multihost_utils.process_allgather(np.int32(self._received))))

  def _note(self, number: int, _) -> None:
    if number == signal.SIGINT and self._received == signal.SIGINT:
      raise KeyboardInterrupt
    self._received = number
