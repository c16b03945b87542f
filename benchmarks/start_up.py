"""Measures the seconds from the start of a process to the end of its first update, of a first start and of later ones.

  python benchmarks/start_up.py --config=dna_splice --config.data_dir=DATA --config.model.checkpoint=DIR

The first start compiles and the later ones find the programs kept. All arguments are those of a run; its workdirs and
cache are temporary. Prints the seconds and writes start_up.json.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

_STARTS = 5
_PAUSE = 0.02  # seconds between two looks at the log


def main(arguments: list[str]) -> None:
  seconds = []
  with tempfile.TemporaryDirectory() as folder:
    for start in range(_STARTS):
      seconds.append(_first_update(pathlib.Path(folder), start, arguments))
      print(f"start {start + 1}: {seconds[-1]:6.2f} s", flush=True)
  later = sorted(seconds[1:])
  print(f"later starts: {later[0]:.1f} to {later[-1]:.1f} s, median {later[len(later) // 2]:.1f} s")
  pathlib.Path("start_up.json").write_text(json.dumps({"seconds": seconds}) + "\n")


def _first_update(folder: pathlib.Path, start: int, arguments: list[str]) -> float:
  log = folder / f"run{start}" / "metrics.jsonl"
  began = time.perf_counter()
  run = subprocess.Popen(
    [
      *(sys.executable, "-m", "discipline_jax.main", *arguments),
      *("--config.train.log_every_steps=1", f"--config.cache_dir={folder / 'cache'}"),
      f"--workdir={log.parent}",
    ],
    stderr=subprocess.PIPE,
    text=True,
  )
  while not (log.exists() and log.stat().st_size):
    if run.poll() is not None:
      assert run.stderr is not None
      sys.exit(run.stderr.read())
    time.sleep(_PAUSE)
  seconds = time.perf_counter() - began
  run.kill()
  run.communicate()
  return seconds


if __name__ == "__main__":
  main(sys.argv[1:])
