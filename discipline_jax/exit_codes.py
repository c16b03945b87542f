"""Turns the errors of a command into one line and an exit code, without importing JAX.

Exit codes: 0 done; 2 a mistake of the user, told in one line; 3 the run failed; 75 stopped by the platform, run the
same command again; 130 interrupted by the user.
"""

import errno
import sys
from collections.abc import Callable

from discipline_jax.errors import RunFailed, Stopped, UserError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def exit_code(command: Callable[[], None]) -> int:
  """Runs a command and returns its exit code; errors that are not bugs are told in one line."""
  try:
    command()
  except UserError as error:
    return _fail(error, 2)
  except RunFailed as error:
    return _fail(error, 3)
  except Stopped as stopped:
    return _fail(stopped, stopped.exit_code)
  except OSError as error:
    place = error.filename or "while writing"
    if error.errno in _FULL:
      return _fail(f"{error.strerror}, {place}; free space and run again, or give another place", 3)
    if error.errno in _FORBIDDEN:
      return _fail(f"{error.strerror}, {place}; change its permissions, or give another place", 2)
    raise
  except KeyboardInterrupt:
    return _fail("interrupted; run the same command to go on", 130)
  return 0


def _fail(error: BaseException | str, code: int) -> int:
  kind = "stopped" if code in (75, 130) else "error"
  print(f"{kind}: {' '.join(str(error).split())}", file=sys.stderr)
  return code
