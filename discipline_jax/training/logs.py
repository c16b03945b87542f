"""Logs metrics during a run to `metrics.jsonl` and to TensorBoard events. Only the first process writes."""

import json
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float32

from discipline_jax.files.growing import Growing, read_records
from discipline_jax.files.log_errors import explained
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_file
from discipline_jax.training.loop import Metrics


class MetricsLog:
  """Appends flat JSON objects, one a line.

  When a run resumes, lines after the restored step are dropped, because that part of the run happens again. So are the
  scores on test, which a run writes at its very end.

  Raises:
    RunFailed: from every method, if the log cannot be written.
  """

  def __init__(self, workdir: Path, first_step: int):
    self._is_open = jax.process_index() == 0
    if not self._is_open:
      return
    self._files = Growing(workdir)
    self._path = self._files.path / "metrics.jsonl"
    # Imported here, because it takes a while, and a dry run needs none.
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    kept = [
      record
      for record in read_records(workdir / "metrics.jsonl")
      if record["step"] <= first_step and not record["split"].startswith("test")
    ]
    with explained(self._path):
      with whole_file(self._path, text=True) as file:
        file.writelines(json.dumps(record) + "\n" for record in kept)
      self._file = self._path.open("a", encoding="utf-8")
      events = self._files.path / "events"
      events.mkdir(exist_ok=True)
      # Not tensorboardX's SummaryWriter: it writes from a thread, which dies silently when the disk is full.
      self._events = EventsWriter(str(events / "events"), f".{first_step}")
      # TensorBoard drops the events after this step that an earlier start wrote.
      self._events.write_event(
        Event(
          wall_time=time.time(),
          step=first_step + 1,
          session_log=SessionLog(status=SessionLog.START),
        )
      )

  def write(self, step: int, split: str, replica: int, **values: float) -> None:
    """Writes one line: step, split, replica and the measured values."""
    if not self._is_open:
      return
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.summary import scalar

    record = {"step": step, "split": split, "replica": replica, **values}
    with explained(self._path):
      self._file.write(json.dumps(record) + "\n")
      self._file.flush()
      for name, value in values.items():
        summary = scalar(f"{split}/{name}/{replica}", value)
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))
      self._events.flush()
      self._files.send()

  def keep(self, *_) -> None:
    """Makes sure that no line up to here can be lost; a hook of the training loop."""
    if self._is_open:
      with explained(self._path):
        self._files.send(now=True)

  def updates(self, rates: Float32[np.ndarray, " updates"]) -> Callable[[Any, int, Metrics], None]:
    """Returns a hook of the training loop that logs the metrics of each replica and the learning rate.

    Args:
      rates: learning rate of each update.
    """

    def log(_, step: int, metrics: Metrics) -> None:
      rate = float(rates[step - 1])
      for replica in range(len(metrics["loss"])):
        measured = {name: float(value[replica]) for name, value in metrics.items()}
        self.write(step, "train", replica, **measured, learning_rate=rate)

    return log

  def close(self) -> None:
    """Closes the files."""
    if not self._is_open:
      return
    with explained(self._path):
      try:
        self._file.close()
      finally:
        self._events.close()
      self._files.close()
