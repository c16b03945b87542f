"""Leaves out warnings that say again what has been said."""

import contextlib
import logging as standard_logging
from collections.abc import Iterator

from absl import logging


@contextlib.contextmanager
def each_warning_once() -> Iterator[None]:
  """Leaves out warnings with words that have been logged inside: each replica, and each of several trainings of the
  same data, gives them anew.
  """
  seen: set[str] = set()

  def is_new(record: standard_logging.LogRecord) -> bool:
    if record.levelno != standard_logging.WARNING:
      return True
    message = record.getMessage()
    is_repeated = message in seen
    seen.add(message)
    return not is_repeated

  logger = logging.get_absl_logger()
  logger.addFilter(is_new)
  try:
    yield
  finally:
    logger.removeFilter(is_new)
