"""Prepares the small corpus in a process of its own, which pauses after two blocks until there is a file `go`.

python -m tests.corpora.paused FOLDER
"""

import pathlib
import sys
import time
from collections.abc import Iterator

from discipline_jax.corpora import blocks
from discipline_jax.corpora import prepare as module
from discipline_jax.corpora.source import Source
from discipline_jax.exit_codes import exit_code
from tests.corpora.small_text import small_config

whole = Source.blocks


def _with_a_pause(source: Source) -> Iterator[blocks.Block]:
  for number, block in enumerate(whole(source)):
    if number == 2:
      while not (folder / "go").exists():
        time.sleep(0.01)
    yield block


if __name__ == "__main__":  # workers import this module, too
  folder = pathlib.Path(sys.argv[1])
  blocks._CHARACTERS = 2000
  module._usable_cores = lambda: 1  # importing is most of what a worker does here
  Source.blocks = _with_a_pause
  sys.exit(exit_code(lambda: module.prepare(small_config(folder))))
