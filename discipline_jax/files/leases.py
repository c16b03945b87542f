"""Holds objects in buckets as locks, which storage does not have.

The holder writes the object again every few seconds. One that was killed does not, and after a while another process
takes the object over; on the same machine at once. Every write has the condition that the object is still the
holder's own: one that was believed dead, because the network was cut, ends as soon as it sees that it was replaced.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time

from absl import logging
from etils import epath

from discipline_jax.files import buckets

_BEAT = 10.0  # seconds between two writes of the holder
_DEAD = 60.0  # seconds without one after which it is believed dead
_POLL = 2.0  # seconds between two looks at the object of another holder
_EXIT = 3  # the exit code of a run that failed


class Lease:
  """An object that this process holds until `close`."""

  def __init__(self, path: epath.Path, *, wait: bool):
    """Makes the object, or takes over that of a dead process.

    Args:
      path: of the object.
      wait: whether to wait as long as another process holds it.

    Raises:
      BlockingIOError: another process holds it, and `wait` is False.
      OSError: it cannot be written.
    """
    self._path = path
    self._owner = {"host": socket.gethostname(), "pid": os.getpid(), "token": secrets.token_hex(8)}
    self._generation = self._claim(wait)
    self._is_closed = threading.Event()
    self._beats = threading.Thread(target=self._beat, daemon=True)
    self._beats.start()

  def close(self) -> None:
    """Gives the object up."""
    self._is_closed.set()
    self._beats.join()
    try:
      buckets.delete_if(self._path, self._generation)
    except OSError as error:  # the next start takes it over
      logging.warning("The lock could not be deleted: %s, %s", error.strerror, self._path)

  def _claim(self, wait: bool) -> int:
    while True:
      generation = self._write(0)
      if generation is not None:
        return generation
      found = buckets.read(self._path)
      if found is None:
        continue
      if _is_dead_here(found[0]) or self._is_still(found[1]):
        generation = self._write(found[1])
        if generation is not None:
          return generation
      elif not wait and buckets.read(self._path) is not None:
        raise BlockingIOError(f"another process holds {self._path}")

  def _write(self, generation: int) -> int | None:
    """Writes the object if it has this generation; returns the new one, or None."""
    written = buckets.write_if(self._path, json.dumps(self._owner), generation)
    if written is not None:
      return written
    # The write may have been repeated because its answer was lost.
    found = buckets.read(self._path)
    return found[1] if found is not None and _owner(found[0]) == self._owner else None

  def _is_still(self, generation: int) -> bool:
    """Watches the object; returns whether nobody writes it for as long as a living holder cannot wait."""
    deadline = time.monotonic() + _DEAD
    while time.monotonic() < deadline:
      time.sleep(_POLL)
      found = buckets.read(self._path)
      if found is None or found[1] != generation:
        return False
    return True

  def _beat(self) -> None:
    while not self._is_closed.wait(_BEAT):
      try:
        written = self._write(self._generation)
      except OSError as error:
        logging.warning("The lock could not be renewed: %s, %s", error.strerror, self._path)
        continue
      if written is None:
        print(
          f"error: another process has taken over {self._path.parent}, because this one could not be seen for"
          f" {_DEAD:g} s; that one goes on with the run",
          file=sys.stderr,
          flush=True,
        )
        os._exit(_EXIT)
      self._generation = written


def is_held(path: epath.Path) -> bool:
  """Returns whether a process seems to hold the object: it wrote it a while ago at most, and is not dead for sure."""
  found = buckets.read(path)
  if found is None or _is_dead_here(found[0]):
    return False
  # A generation is a time in microseconds. If this machine's clock is wrong, `Lease` still watches the object.
  return time.time() < found[1] / 1e6 + _DEAD


def _owner(text: str) -> dict | None:
  try:
    content = json.loads(text)
  except ValueError:
    return None
  return content if isinstance(content, dict) else None


def _is_dead_here(text: str) -> bool:
  """Returns whether the holder ran on this machine, and is no more."""
  owner = _owner(text) or {}
  if owner.get("host") != socket.gethostname() or not isinstance(owner.get("pid"), int):
    return False
  try:
    os.kill(owner["pid"], 0)
  except ProcessLookupError:
    return True
  except (PermissionError, OverflowError):
    return False
  return False
