"""Says how many workers a preparation should have."""

import os


def usable_cores() -> int:
  """Returns the number of cores that this process may use. On shared machines that is often less than all."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1  # macOS cannot restrict a process to some cores
