"""What a run writes while it goes: `metrics.jsonl` and TensorBoard events, by the first process alone."""

import contextlib
import json
import pathlib
import time
from collections.abc import Iterator

import jax
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from discipline_jax.errors import RunFailed
from discipline_jax.whole_files import whole_file


class MetricsLog:
  """Appends flat JSON objects, one a line.

  On continuing, lines past the restored step are dropped: that part of the run happens again.

  Raises:
    RunFailed: from every method, where the log cannot be written.
  """

  def __init__(self, workdir: pathlib.Path, first_step: int):
    self._path = workdir / "metrics.jsonl"
    self._is_open = jax.process_index() == 0
    if not self._is_open:
      return
    kept = []
    if self._path.exists():
      for line in self._path.read_text(encoding="utf-8").splitlines():
        try:
          record = json.loads(line)
        except json.JSONDecodeError:
          break  # the line that a kill cut short
        if record["step"] <= first_step and record["split"] != "test":
          kept.append(line + "\n")
    with self._explained():
      with whole_file(self._path, text=True) as file:
        file.write("".join(kept))
      self._file = self._path.open("a", encoding="utf-8")
      (workdir / "events").mkdir(exist_ok=True)
      # tensorboardX's SummaryWriter writes from a thread, which takes a full disk for a reason to die unheard.
      self._events = EventsWriter(str(workdir / "events" / "events"), f".{first_step}")
      # TensorBoard drops what an earlier start wrote from here on.
      self._events.write_event(
        Event(
          wall_time=time.time(),
          step=first_step + 1,
          session_log=SessionLog(status=SessionLog.START),
        )
      )

  def write(self, step: int, split: str, replica: int, **values: float) -> None:
    """One line: step, split, replica and what was measured."""
    if not self._is_open:
      return
    record = {"step": step, "split": split, "replica": replica, **values}
    with self._explained():
      self._file.write(json.dumps(record) + "\n")
      self._file.flush()
      for name, value in values.items():
        summary = scalar(f"{split}/{name}/{replica}", value)
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))
      self._events.flush()

  def close(self) -> None:
    if not self._is_open:
      return
    with self._explained():
      try:
        self._file.close()
      finally:
        self._events.close()

  @contextlib.contextmanager
  def _explained(self) -> Iterator[None]:
    try:
      yield
    except OSError as error:
      raise RunFailed(
        f"the log cannot be written ({error.strerror}), {self._path}; free space, and run again to go on from the"
        " last checkpoint"
      ) from None
