"""What a run writes while it goes: `metrics.jsonl` and TensorBoard events, by the first process alone."""

import json
import pathlib

import jax
from tensorboardX import SummaryWriter

from discipline_jax.whole_files import whole_file


class MetricsLog:
  """Appends flat JSON objects, one a line.

  On continuing, lines past the restored step are dropped: that part of the run happens again.
  """

  def __init__(self, workdir: pathlib.Path, first_step: int):
    self._file = None
    if jax.process_index() != 0:
      return
    path = workdir / "metrics.jsonl"
    kept = []
    if path.exists():
      for line in path.read_text(encoding="utf-8").splitlines():
        try:
          record = json.loads(line)
        except json.JSONDecodeError:
          break  # the line that a kill cut short
        if record["step"] <= first_step and record["split"] != "test":
          kept.append(line + "\n")
    with whole_file(path, text=True) as file:
      file.write("".join(kept))
    self._file = path.open("a", encoding="utf-8")
    self._events = SummaryWriter(str(workdir / "events"), purge_step=first_step + 1)

  def write(self, step: int, split: str, replica: int, **values: float) -> None:
    """One line: step, split, replica and what was measured."""
    if self._file is None:
      return
    self._file.write(
      json.dumps({"step": step, "split": split, "replica": replica, **values}) + "\n"
    )
    self._file.flush()
    for name, value in values.items():
      self._events.add_scalar(f"{split}/{name}/{replica}", value, step)

  def close(self) -> None:
    if self._file is not None:
      self._file.close()
      self._events.close()
