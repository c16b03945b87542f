"""Progress bars that draw often on a terminal, and seldom into a log file."""

import sys
from collections.abc import Iterable

from tqdm import tqdm


def bar(iterable: Iterable | None = None, **settings) -> tqdm:
  """tqdm's bar, with tqdm's settings."""
  interval = 0.1 if sys.stderr.isatty() else 30  # seconds
  return tqdm(iterable, dynamic_ncols=True, mininterval=interval, **settings)
