"""Tests of locks between processes."""

import errno
import fcntl
import signal
import subprocess
import sys
import threading

import pytest

from discipline_jax.files.locks import lock, locked

HOLDER = """
import pathlib, sys, time
from discipline_jax.files.locks import locked
with locked(pathlib.Path(sys.argv[1])):
  print("held", flush=True)
  time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
  return tmp_path / "new" / "folder" / "lock"


def is_free(path) -> bool:
  with path.open("a") as file:
    try:
      lock(file, wait=False)
    except BlockingIOError:
      return False
  return True


def test_a_lock_is_held_while_the_block_runs(path):
  with locked(path):
    assert not is_free(path)
  assert is_free(path)


def test_a_lock_is_released_if_the_block_fails(path):
  with pytest.raises(KeyError), locked(path):
    raise KeyError
  assert is_free(path)


def test_a_lock_ends_with_its_process(path):
  with subprocess.Popen(
    [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
  ) as holder:
    assert holder.stdout.readline() == "held\n"
    assert not is_free(path)
    holder.send_signal(signal.SIGKILL)
    with locked(path):
      pass
  assert is_free(path)


def test_one_at_a_time(path):
  inside, most = [], []

  def run():
    with locked(path):
      inside.append(1)
      most.append(len(inside))
      threading.Event().wait(0.01)
      inside.pop()

  threads = [threading.Thread(target=run) for _ in range(5)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert most == [1] * 5


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])
@pytest.mark.parametrize("wait", [True, False])
def test_a_file_system_without_locks_is_a_warning(path, monkeypatch, caplog, number, wait):
  def flock(*_):
    raise OSError(number, "not here")

  monkeypatch.setattr(fcntl, "flock", flock)
  path.parent.mkdir(parents=True)
  with path.open("w") as file:
    lock(file, wait=wait)
  assert "not here" in caplog.text
  assert str(path) in caplog.text


def test_another_error_is_not_hidden(path, monkeypatch):
  def flock(*_):
    raise OSError(errno.EIO, "broken disk")

  monkeypatch.setattr(fcntl, "flock", flock)
  with pytest.raises(OSError, match="broken disk"), locked(path):
    pytest.fail("the block ran without the lock")
