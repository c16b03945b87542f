"""Runs a command, and prints the most memory that it and the processes below it held at one time.

  python benchmarks/peak_memory.py python -m discipline_jax.corpora.prepare --config=configs/pretrain_small.py ...

Linux only. Three times a second it adds up `Pss` of /proc/PID/smaps_rollup: memory that processes share counts once.
Prints the peak of the sum, that of the largest process alone, and the seconds; exits with the command's code.
"""

import pathlib
import subprocess
import sys
import time

_PAUSE = 1 / 3  # seconds between two looks


def main(command: list[str]) -> int:
  start = time.perf_counter()
  process = subprocess.Popen(command)
  total = largest = 0
  while process.poll() is None:
    sizes = [_proportional(number) for number in _below(process.pid)]
    total, largest = max(total, sum(sizes)), max(largest, *sizes)
    time.sleep(_PAUSE)
  seconds = time.perf_counter() - start
  print(f"peak {total / 1e6:.0f} MB, largest process {largest / 1e6:.0f} MB, {seconds:.0f} s")
  return process.returncode


def _below(number: int) -> list[int]:
  """Returns the number of a process, and those of all that it started, directly or not."""
  found = [number]
  for parent in found:  # grows while it is read
    for children in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
      try:
        found += map(int, children.read_text().split())
      except OSError:  # it has ended
        continue
  return found


def _proportional(number: int) -> int:
  """Returns the bytes of a process, those shared with others in proportion; 0 if it has ended."""
  try:
    lines = pathlib.Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
  except OSError:
    return 0
  return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
  if len(sys.argv) == 1:
    sys.exit(__doc__)
  sys.exit(main(sys.argv[1:]))
