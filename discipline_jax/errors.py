"""The ways in which a run ends early that are not bugs of this package.

`exit_codes` turns them into one line and an exit code. It does the same with a full disk, a place that may not be
written, and a device without enough memory. Every other exception is a bug of ours and keeps its traceback.
"""

import signal


class UserError(ValueError):
  """A mistake of the user: the message says what is wrong, where, and what to do (exit code 2)."""


class Locked(UserError):
  """Another process works in the workdir, which is no mistake if several share the runs of a study."""


class RunFailed(RuntimeError):
  """The run could not continue: loss not finite, disk full (exit code 3). The last good checkpoint is kept."""


class NotFinite(RunFailed):
  """The training loss or a gradient is no finite number, most often because the learning rate is too high."""


class Stopped(Exception):
  """A signal ended the run after a checkpoint; the same command resumes it (exit code 130 or 75)."""

  def __init__(self, signum: int, step: int):
    super().__init__(f"at step {step}, which is saved; run the same command to resume")
    self.exit_code = 130 if signum == signal.SIGINT else 75
