"""Tests processes that die while they prepare a corpus, and processes that prepare the same one at once."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from discipline_jax.corpora import prepare as module
from discipline_jax.corpora import workers
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.source import Source
from discipline_jax.corpora.stages import job_of
from discipline_jax.corpora.workers import Processes
from discipline_jax.errors import RunFailed
from tests.corpora.small_text import content, small_config

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def paused(tmp_path):
  """Yields a process, in its own process group, that has written some files of the corpus and pauses."""
  process = subprocess.Popen(
    [sys.executable, "-m", "tests.corpora.paused", str(tmp_path)],
    cwd=ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )
  deadline = time.monotonic() + 120
  try:
    while not list(tmp_path.glob("cache/corpora/.*.part/*-00001.array_record")):
      assert process.poll() is None, process.communicate()[1]
      assert time.monotonic() < deadline
      time.sleep(0.01)
    yield process
  finally:
    with contextlib.suppress(ProcessLookupError):  # which is how it should be
      os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def ended(process):
  """Returns the exit code and the messages. The pipes close only when all workers have ended, too."""
  _, stderr = process.communicate(timeout=60)
  return process.returncode, stderr


def prepared(folder):
  return [path for path in (folder / "cache" / "corpora").iterdir() if path.name[0] != "."]


def parts(folder):
  return [path for path in (folder / "cache" / "corpora").iterdir() if path.suffix == ".part"]


@pytest.fixture
def expected(tmp_path):
  """Returns the files of the corpus when nothing interrupts."""
  folder = tmp_path / "expected"
  folder.mkdir()
  return content(prepare(small_config(folder)).directory)


@pytest.mark.parametrize(
  ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_a_signal_clears_everything_away(paused, tmp_path, number, code):
  os.killpg(paused.pid, number)  # as a terminal and a batch system do
  returned, stderr = ended(paused)
  assert returned == code, stderr
  assert "Traceback" not in stderr
  assert not prepared(tmp_path)
  assert not parts(tmp_path)


def test_a_killed_process_leaves_nothing_that_is_taken_for_whole(paused, tmp_path, expected):
  """The next process waits for it, takes its place when it is killed, and clears away what it left."""
  found = []

  def kill():
    found.extend((prepared(tmp_path), len(parts(tmp_path))))
    paused.kill()

  timer = threading.Timer(0.5, kill)
  timer.start()
  directory = prepare(small_config(tmp_path)).directory
  assert found == [[], 1], "it waited"
  assert content(directory) == expected
  assert prepared(tmp_path) == [directory]
  assert not parts(tmp_path)
  assert ended(paused)[0] == -signal.SIGKILL, "its workers end with it"


def test_processes_wait_for_the_first_and_find_its_corpus(paused, tmp_path, monkeypatch):
  monkeypatch.setattr(module, "_make", lambda *_: pytest.fail("made twice"))
  threading.Timer(0.5, (tmp_path / "go").touch).start()
  directory = prepare(small_config(tmp_path)).directory
  assert (tmp_path / "go").exists(), "it waited"
  assert prepared(tmp_path) == [directory]
  assert ended(paused)[0] == 0


def die(worker):
  """Ends its worker, as the system does when memory runs out."""
  os._exit(9)


class Fatal(Processes):
  """Processes that die of every task."""

  def run(self, task, arguments):
    yield from super().run(die, [(), ()])


def test_a_worker_that_the_system_kills_fails_the_run(tmp_path, monkeypatch):
  monkeypatch.setattr(workers, "usable_cores", lambda: 1)
  with pytest.raises(RunFailed):
    prepare(small_config(tmp_path), Fatal)
  assert not prepared(tmp_path)
  assert not parts(tmp_path)


def test_workers_that_are_dead_when_a_task_is_submitted(tmp_path, monkeypatch):
  monkeypatch.setattr(workers, "usable_cores", lambda: 1)
  with Processes(job_of(Source(small_config(tmp_path)), tmp_path)) as processes:
    for _ in range(2):
      with pytest.raises(RunFailed):
        list(processes.run(die, [(), ()]))
