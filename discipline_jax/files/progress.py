"""Progress bars, which are redrawn often on a terminal and rarely in a log file."""

import sys
from collections.abc import Iterable

from tqdm import tqdm


def bar(iterable: Iterable | None = None, **settings) -> tqdm:
  """Returns a progress bar of tqdm; `settings` are the arguments of `tqdm.tqdm`."""
  interval = 0.1 if sys.stderr.isatty() else 30  # seconds
  return tqdm(iterable, dynamic_ncols=True, mininterval=interval, **settings)
