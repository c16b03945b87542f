"""Says in one line why a log of a run cannot be written."""

import contextlib
import pathlib
from collections.abc import Iterator

from discipline_jax.errors import RunFailed


@contextlib.contextmanager
def explained(path: pathlib.Path) -> Iterator[None]:
  """Raises RunFailed in place of the error of writing to the log at `path`."""
  try:
    yield
  except OSError as error:
    remedy = (
      "" if isinstance(error, TimeoutError) else "free space, and "
    )  # of storage that does not answer
    raise RunFailed(
      f"the log cannot be written ({error.strerror}), {error.filename or path}; {remedy}run again to resume"
      " from the last checkpoint"
    ) from None
