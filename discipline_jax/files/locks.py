"""Locks, so that two processes do not write the same files at the same time."""

import contextlib
import errno
import fcntl
import pathlib
from collections.abc import Iterator
from typing import IO, Any

from absl import logging

from discipline_jax.files import leases
from discipline_jax.files.places import Path, make_folder

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


def hold(path: Path, *, wait: bool) -> IO[str] | leases.Lease:
  """Returns a lock that is held until it is closed or the process ends.

  Args:
    path: a file that serves only as the lock; it is made if it does not exist, in a directory that does.
    wait: see `lock`.

  Raises:
    BlockingIOError: another process holds the lock, and `wait` is False.
    OSError: the file cannot be made.
  """
  if not isinstance(path, pathlib.Path):
    return leases.Lease(path, wait=wait)
  file = path.open("a")
  try:
    lock(file, wait=wait)
  except BlockingIOError:
    file.close()
    raise
  return file


def is_held(path: Path) -> bool:
  """Returns whether another process holds the lock at this moment; writes nothing."""
  if not isinstance(path, pathlib.Path):
    return leases.is_held(path)
  try:
    with path.open("r+") as file:
      lock(file, wait=False)
  except FileNotFoundError:
    return False
  except BlockingIOError:
    return True
  return False


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
  """Holds the lock of the file `path` while the block runs; waits for it first.

  Args:
    path: a file that serves only as the lock; it and its directory are made if they do not exist.
  """
  make_folder(path.parent)
  with contextlib.closing(hold(path, wait=True)):
    yield
