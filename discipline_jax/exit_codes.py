"""Turns the errors of a command into one line and an exit code, without importing JAX.

Exit codes: 0 done; 2 a mistake of the user, told in one line; 3 the run failed; 75 stopped by the platform, run the
same command again; 130 interrupted by the user.
"""

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from discipline_jax.errors import RunFailed, Stopped, UserError
from discipline_jax.files.buckets import as_os_error
from discipline_jax.files.copies import original
from discipline_jax.files.places import has_scheme

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_AGAIN = 0.1  # seconds until a Ctrl-C that was lost is sent again


def exit_code(command: Callable[[], None]) -> int:
  """Runs a command and returns its exit code; errors that are not bugs are told in one line."""
  try:
    with _no_interrupt_lost():
      command()
  except (Exception, KeyboardInterrupt) as error:
    known = outcome(error)
    if known is None:
      raise
    line, code = known
    print(line, file=sys.stderr)
    return code
  return 0


def outcome(error: BaseException) -> tuple[str, int] | None:
  """Returns the line that tells of an error, and the exit code; None if it is a bug."""
  match error:
    case UserError():
      return _line(error, 2)
    case RunFailed():
      return _line(error, 3)
    case Stopped():
      return _line(error, error.exit_code)
    case _ if (told := as_os_error(error)) is not None:
      return outcome(told)
    case OSError():
      place = error.filename or "while writing"
      if error.errno == errno.ETIMEDOUT:
        return _line(f"{error.strerror}, {place}; run the same command again", 3)
      if error.errno in _FULL:
        return _line(
          f"{error.strerror}, {place}; free space and run again, or give another place", 3
        )
      if error.errno in _FORBIDDEN:
        return _line(f"{error.strerror}, {place}; change its permissions, or give another place", 2)
      if error.errno == errno.ENOENT and has_scheme(str(place)):
        return _line(f"{error.strerror}, {place}; make it, or give another place", 2)
    case KeyboardInterrupt():
      return _line("interrupted; run the same command to go on", 130)
  return None


@contextlib.contextmanager
def _no_interrupt_lost() -> Iterator[None]:
  """Repeats a Ctrl-C that fell where Python ignores errors, as in the callback of JAX for the garbage collector."""
  before = sys.unraisablehook
  lost: list[threading.Timer] = []

  def again() -> None:
    # A signal also ends a wait of the main thread; `_thread.interrupt_main` does not.
    os.kill(os.getpid(), signal.SIGINT)

  def look(unraisable: "sys.UnraisableHookArgs") -> None:
    if unraisable.exc_type is not KeyboardInterrupt:
      return before(unraisable)
    lost.append(threading.Timer(_AGAIN, again))  # raised here it would be ignored, too
    lost[-1].start()

  sys.unraisablehook = look
  try:
    yield
  finally:
    sys.unraisablehook = before
    for timer in lost:
      timer.cancel()


def _line(error: BaseException | str, code: int) -> tuple[str, int]:
  kind = "stopped" if code in (75, 130) else "error"
  return f"{kind}: {original(' '.join(str(error).split()))}", code
