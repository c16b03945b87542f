"""Starts Python modules in processes of their own, without the seconds that their imports take.

Each process of the tests has one server, which has imported what the package uses and touched no device. A run is a
fork of it: another process, with its own environment, output and signals.
"""

import atexit
import contextlib
import functools
import importlib
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping

_IMPORTED = (
  "jax",
  "flax.nnx",
  "matplotlib.figure",
  "ml_collections.config_flags",
  "optax",
  "orbax.checkpoint",
  "scipy.stats",
  "sklearn.metrics",
  "tensorboardX.event_file_writer",
  "tokenizers",
)
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_POLL = 0.01  # seconds


class Process:
  """A running module; has what the tests use of `subprocess.Popen`."""

  def __init__(
    self,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
  ):
    """Starts it, in the root of the project.

    Args:
      arguments: those of Python: `-m`, a module and its arguments, or `-c`, a program and its arguments.
      environment: variables that it has beside those of the tests.
    """
    self.returncode: int | None = None
    self._folder = pathlib.Path(tempfile.mkdtemp(prefix="forked-"))
    request = {
      "arguments": arguments,
      "environment": {**os.environ, **(environment or {})},
      "folder": str(self._folder),
    }
    server = _server()
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    self.pid = int(server.stdout.readline())

  def poll(self) -> int | None:
    """Returns the exit code, or minus the number of the signal that ended it; None if it still runs."""
    if self.returncode is None and (self._folder / "status").exists():
      self.returncode = int((self._folder / "status").read_text())
    return self.returncode

  def wait(self, timeout: float) -> int:
    """Waits for its end, and returns what `poll` returns then."""
    deadline = time.monotonic() + timeout
    while (code := self.poll()) is None:
      if time.monotonic() > deadline:
        self.kill()
        raise TimeoutError(f"after {timeout} s: {(self._folder / 'stderr').read_text()[-2000:]}")
      time.sleep(_POLL)
    return code

  def communicate(self, timeout: float = 300) -> tuple[str, str]:
    """Waits for its end, and returns what it wrote to stdout and stderr."""
    self.wait(timeout)
    stdout, stderr = ((self._folder / name).read_text() for name in ("stdout", "stderr"))
    return stdout, stderr

  def send_signal(self, number: int) -> None:
    if self.poll() is None:
      os.kill(self.pid, number)

  def kill(self) -> None:
    self.send_signal(signal.SIGKILL)


@functools.cache
def _server() -> subprocess.Popen:
  return subprocess.Popen(
    [sys.executable, "-m", "tests.forked"],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
    cwd=pathlib.Path(__file__).parents[1],
    env={**os.environ, **_ONE_THREAD},
  )


def _serve() -> None:
  for name in _IMPORTED:
    importlib.import_module(name)
  if pathlib.Path("/proc/self/task").is_dir():
    assert len(os.listdir("/proc/self/task")) == 1, "a fork has no threads of its parent"
  signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the watchers
  for line in sys.stdin:
    request = json.loads(line)
    if os.fork() == 0:
      _watch(request)


def _watch(request: dict) -> None:
  """Starts a run, tells its number, and writes its exit code when it ends."""
  signal.signal(signal.SIGCHLD, signal.SIG_DFL)
  folder = pathlib.Path(request["folder"])
  pid = os.fork()
  if pid == 0:
    _become(request, folder)
  print(pid, flush=True)
  _, status = os.waitpid(pid, 0)
  with contextlib.suppress(FileNotFoundError):  # the tests are over
    (folder / "writing").write_text(str(os.waitstatus_to_exitcode(status)))
    (folder / "writing").rename(folder / "status")
  os._exit(0)


def _become(request: dict, folder: pathlib.Path) -> None:
  """Runs the module, and ends as Python does."""
  for number, name in ((1, "stdout"), (2, "stderr")):
    os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
  os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
  os.environ.clear()
  os.environ.update(request["environment"])
  signal.signal(signal.SIGINT, signal.default_int_handler)
  kind, what, *arguments = request["arguments"]
  sys.argv = [what, *arguments] if kind == "-m" else [kind, *arguments]
  code = 0
  try:
    if kind == "-m":
      runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
      exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
  except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
  except BaseException:
    traceback.print_exc()
    code = 1
  threading._shutdown()
  atexit._run_exitfuncs()
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(code)


if __name__ == "__main__":
  _serve()
