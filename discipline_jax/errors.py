"""The two ways in which a run ends badly that are not bugs of this package.

`command_line` turns them into one line and an exit code, and also the system's errors (a full disk, a device without
enough memory); everything else lets them pass. Any other exception is a defect of ours and keeps its traceback.
"""


class UserError(ValueError):
  """A mistake of the user's: the message says what, where and what to do (exit code 2)."""


class RunFailed(RuntimeError):
  """The run could not go on: loss not finite, disk full (exit code 3). The last good checkpoint is kept."""
