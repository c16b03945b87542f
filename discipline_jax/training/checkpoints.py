"""Saves and restores checkpoints of a run with Orbax: asynchronous, each one whole or absent."""

import errno
import pathlib
import re
from logging import LogRecord, getLogger
from typing import Any

from absl import logging

from discipline_jax.errors import RunFailed, UserError
from discipline_jax.files.places import Path, absolute

# How tensorstore's errors begin that are those of the storage.
_OF_STORAGE = re.compile(
  "UNAVAILABLE|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED|PERMISSION_DENIED|UNAUTHENTICATED|INTERNAL|ABORTED"
)


class Checkpoints:
  """Keeps the latest two checkpoints in a directory; if the latest cannot be read, the one before it is restored."""

  def __init__(self, directory: Path):
    import orbax.checkpoint as ocp  # takes a second, and a dry run needs none

    self._directory = directory
    self._args = ocp.args
    for logger in (logging.get_absl_logger(), getLogger("asyncio")):
      logger.addFilter(_is_said_once)
    options = ocp.CheckpointManagerOptions(
      max_to_keep=2, cleanup_tmp_directories=True, enable_async_checkpointing=True
    )
    self._manager = ocp.CheckpointManager(absolute(directory), options=options)

  def save(self, step: int, tree: Any) -> None:
    """Begins to save `tree`; its arrays may be donated as soon as this returns."""

    def save() -> None:
      if not self._manager.save(step, args=self._args.StandardSave(tree)):
        raise AssertionError(f"Orbax did not save step {step}")

    self._guard(save)

  def restore(self, template: Any) -> tuple[int, Any]:
    """Returns the step and the tree of the latest readable checkpoint, or (0, None) if there is none.

    Args:
      template: a tree of `jax.ShapeDtypeStruct` with shardings.

    Raises:
      UserError: there are checkpoints, but none can be read.
    """
    steps = sorted(self._manager.all_steps(), reverse=True)
    reason = ""
    for step in steps:
      try:
        return step, self._manager.restore(step, args=self._args.StandardRestore(template))
      except (ValueError, KeyError, TypeError, OSError) as error:
        reason = _first_line(error)
        logging.warning("The checkpoint of step %d cannot be read: %s", step, reason)
    if steps:
      raise UserError(
        f"no checkpoint of this run can be read ({reason}), {self._directory}; give another --workdir"
      )
    return 0, None

  def last_whole_step(self) -> int | None:
    """Waits for all saves, and returns the step of the latest checkpoint on disk."""
    self.wait()
    return self._manager.latest_step()

  def wait(self) -> None:
    """Waits until all saves are on disk."""
    self._guard(self._manager.wait_until_finished)

  def close(self) -> None:
    """Waits for all saves, and closes the manager."""
    self._guard(self._manager.close)

  def _guard(self, write) -> None:
    try:
      write()
    except (OSError, ValueError) as error:  # tensorstore reports a full disk as a ValueError
      if not isinstance(self._directory, pathlib.Path):
        if isinstance(error, ValueError) and not _OF_STORAGE.match(str(error)):
          raise
        raise RunFailed(
          f"a checkpoint cannot be written ({_first_line(error)}), {self._directory}; run again to resume from the last"
          " whole one"
        ) from error
      full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
      if not full and "No space left" not in str(error) and "RESOURCE_EXHAUSTED" not in str(error):
        raise
      steps = [int(path.name) for path in self._directory.iterdir() if path.name.isdigit()]
      last = f"step {max(steps)}" if steps else "none"
      raise RunFailed(
        f"the disk is full, {self._directory}; the last whole checkpoint is {last}; free space and run again"
      ) from error


def _is_said_once(record: LogRecord) -> bool:
  """Returns False for records of exceptions that Orbax also raises: hundreds of lines for a full disk."""
  return not (record.exc_info and (record.name == "asyncio" or "orbax" in record.pathname))


def _first_line(error: Exception) -> str:
  return next(iter(str(error).strip().splitlines()), type(error).__name__)
