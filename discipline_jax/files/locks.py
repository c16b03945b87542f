"""Locks, so that two processes do not write the same files at the same time."""

import contextlib
import errno
import fcntl
import pathlib
from collections.abc import Iterator
from typing import IO, Any

from absl import logging

# Errors of `flock` on a file system without locks.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def lock(file: IO[Any], *, wait: bool) -> None:
  """Locks an open file until it is closed or the process ends.

  On a file system without locks, it only logs a warning.

  Args:
    file: a file that is open for writing.
    wait: whether to wait until no other process holds the lock.

  Raises:
    BlockingIOError: another process holds the lock, and `wait` is False.
  """
  try:
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
  except BlockingIOError:
    raise
  except OSError as error:
    if error.errno not in _NO_LOCKS:
      raise
    logging.warning(
      "the file system has no locks (%s), %s; do not start a second process that writes there",
      error.strerror,
      file.name,
    )


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
  """Holds the lock of the file `path` while the block runs; waits for it first.

  Args:
    path: a file that serves only as the lock; it and its directory are made if they do not exist.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  with path.open("w") as file:
    lock(file, wait=True)
    yield
