"""Tests the log of a run: its content, what is left of it when a run resumes, and a full disk."""

import json
import os
import pathlib
import struct

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from discipline_jax.errors import RunFailed
from discipline_jax.training.logs import MetricsLog


def events(folder: pathlib.Path) -> list[Event]:
  """Returns the events of all files. A record is a length (8 bytes), a checksum (4), the event and a checksum (4)."""
  found = []
  for path in sorted((folder / "events").iterdir()):
    content = path.read_bytes()
    while content:
      (length,) = struct.unpack("Q", content[:8])
      found.append(Event.FromString(content[12 : 12 + length]))
      content = content[16 + length :]
  return found


def test_both_logs_hold_what_is_written(tmp_path):
  log = MetricsLog(tmp_path, 0)
  log.write(3, "validation", 1, accuracy=75.0, loss=0.5)
  first = {"step": 3, "split": "validation", "replica": 1, "accuracy": 75.0, "loss": 0.5}
  assert json.loads((tmp_path / "metrics.jsonl").read_text()) == first
  scalars = [
    (event.step, value.tag, value.simple_value)
    for event in events(tmp_path)
    for value in event.summary.value
  ]
  assert scalars == [(3, "validation/accuracy/1", 75.0), (3, "validation/loss/1", 0.5)]
  log.close()


def test_resuming_drops_what_will_happen_again(tmp_path):
  log = MetricsLog(tmp_path, 0)
  for step in (1, 2, 3):
    log.write(step, "train", 0, loss=float(step))
  for part in ("test", "test_mismatched"):  # they are written at the end, which comes again
    log.write(2, part, 0, accuracy=1.0)
  log.close()
  with (tmp_path / "metrics.jsonl").open("a") as file:
    file.write('{"step": 1, "spl')  # a kill
  MetricsLog(tmp_path, 2).close()
  lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
  assert [json.loads(line)["step"] for line in lines] == [1, 2]
  starts = [
    event.step for event in events(tmp_path) if event.session_log.status == SessionLog.START
  ]
  assert starts == [1, 3]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_full_disk(tmp_path):
  log = MetricsLog(tmp_path, 0)
  log._file = open("/dev/full", "a")  # noqa: SIM115  (the log closes it)
  with pytest.raises(RunFailed) as raised:
    log.write(1, "train", 0, loss=1.0)
  assert "No space left on device" in str(raised.value)
  assert str(tmp_path / "metrics.jsonl") in str(raised.value)
  with pytest.raises(RunFailed):
    log.close()
