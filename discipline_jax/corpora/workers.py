"""Runs tasks in worker processes, which end with the process that started them."""

import concurrent.futures.process
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

from discipline_jax.corpora.cores import usable_cores
from discipline_jax.corpora.tasks import Job, Worker
from discipline_jax.errors import RunFailed

# A method of `Worker`, and its arguments.
Task = Callable[..., int]


class Processes:
  """Runs tasks in as many worker processes as this one may use cores.

  They start when there are several tasks at once.
  """

  def __init__(self, job: Job):
    self._job = job
    self._here = Worker(job)
    self._pool: concurrent.futures.ProcessPoolExecutor | None = None

  def __enter__(self) -> "Processes":
    return self

  def __exit__(self, *_) -> None:
    if self._pool is not None:
      self._pool.shutdown(cancel_futures=True)

  def run(self, task: Task, arguments: Sequence[tuple]) -> Iterator[int]:
    """Runs a task with each of several arguments, and yields what it returns, in any order.

    Raises:
      RunFailed: the system killed a worker.
    """
    if len(arguments) < 2:  # a process takes seconds to start
      yield from (task(self._here, *one) for one in arguments)
      return
    workers = usable_cores()
    if self._pool is None:
      self._pool = concurrent.futures.ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("spawn"),  # a fork would lack JAX's threads
        _begin,
        (self._job,),
      )
    pending: set[concurrent.futures.Future] = set()
    try:
      for one in arguments:
        # `submit` may start a worker, which inherits the blocked signal: a terminal sends Ctrl-C to the workers, too,
        # but the parent is to end them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
          pending.add(self._pool.submit(_work, task, one))
        finally:
          signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if len(pending) > 2 * workers:  # so that an error ends the preparation soon
          done, pending = concurrent.futures.wait(
            pending, return_when=concurrent.futures.FIRST_COMPLETED
          )
          yield from (future.result() for future in done)
      yield from (future.result() for future in concurrent.futures.as_completed(pending))
    except concurrent.futures.process.BrokenProcessPool:
      raise RunFailed(
        "a process that prepares the corpus was killed, most likely because memory ran out; free some, and run again"
      ) from None


def _begin(job: Job) -> None:
  """Prepares a worker process for tasks."""
  global _worker
  threading.Thread(target=_end_with_parent, daemon=True).start()
  os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a worker for each core already
  _worker = Worker(job)


def _end_with_parent() -> None:
  """Ends this worker when its parent dies; otherwise it would wait for tasks forever."""
  parent = multiprocessing.parent_process()
  assert parent is not None
  parent.join()
  os._exit(1)


def _work(task: Task, arguments: tuple) -> int:
  """Does a task in a worker process."""
  return task(_worker, *arguments)


@contextlib.contextmanager
def stopping() -> Iterator[None]:
  """Lets SIGTERM end this process with exit code 75, after what stands inside has cleared away."""

  def stop(*_) -> None:
    print("stopped: the corpus is not prepared yet; run the same command again", file=sys.stderr)
    sys.exit(75)

  before = signal.signal(signal.SIGTERM, stop)
  try:
    yield
  finally:
    signal.signal(signal.SIGTERM, before)
