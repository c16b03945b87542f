"""Prepares the small corpus in its own process, which pauses after two blocks until there is a file `go`.

python -m tests.corpora.paused FOLDER
"""

import pathlib
import sys
import time
from collections.abc import Iterator, Sequence

from discipline_jax.corpora import ranges, workers
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.tasks import Worker
from discipline_jax.exit_codes import exit_code
from tests.corpora.small_text import small_config

whole = workers.Processes.run


def _with_a_pause(
  processes: workers.Processes, task: workers.Task, arguments: Sequence[tuple]
) -> Iterator[int]:
  if task is not Worker.write:
    yield from whole(processes, task, arguments)
    return
  yield from whole(processes, task, arguments[:2])
  while not (folder / "go").exists():
    time.sleep(0.01)
  yield from whole(processes, task, arguments[2:])


if __name__ == "__main__":  # workers import this module, too
  folder = pathlib.Path(sys.argv[1])
  ranges.CHARACTERS = 2000
  workers.usable_cores = lambda: 1  # importing is most of what a worker does here
  workers.Processes.run = _with_a_pause
  sys.exit(exit_code(lambda: prepare(small_config(folder))))
