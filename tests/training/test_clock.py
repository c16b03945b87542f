"""Tests the share of a run's time that went into updates that count, by hand."""

import json

import pytest

from discipline_jax.errors import RunFailed
from discipline_jax.training import clock as clocks
from discipline_jax.training.clock import FILE, Clock


@pytest.fixture
def now(monkeypatch):
  """Returns a list whose only number is the time."""
  time = [0.0]
  monkeypatch.setattr(clocks.time, "perf_counter", lambda: time[0])
  return time


def begin(path, first_step, now):
  return Clock(path, first_step, now[0], lambda step: 6)


def test_one_start(tmp_path, now):
  clock = begin(tmp_path, 0, now)
  assert clock.rate is None
  for step, seconds in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 2.0)):
    clock.add(step, seconds)
  now[0] = 16.0
  assert clock.rate == 3  # the median of 6 / 1, 6 / 2, 6 / 2: the first one does not count
  assert clock.seconds == 16
  assert clock.goodput == 0.5


def test_updates_that_were_lost_do_not_count(tmp_path, now):
  first = begin(tmp_path, 0, now)
  for step in range(1, 9):
    now[0] = 10.0 * step
    first.add(step, 5.0)
    if step % 2 == 0:
      first.note(step)
  # Killed at 80 s after step 8; step 6 was the last one on disk.
  now[0] = 1000.0
  second = begin(tmp_path, 6, now)
  now[0] = 1020.0
  second.add(7, 8.0)
  second.note(7)
  # Killed again. The checkpoint of step 6 is broken, that of step 4 is not: nothing of the second start counts.
  third = begin(tmp_path, 4, now)
  now[0] = 1060.0
  third.add(5, 30.0)
  assert third.seconds == 80 + 20 + 40
  assert third.goodput == pytest.approx((4 * 5 + 30) / 140)


def test_a_start_that_made_no_update_costs_time(tmp_path, now):
  begin(tmp_path, 0, now).note(0)
  now[0] = 10.0
  second = begin(tmp_path, 0, now)
  now[0] = 20.0
  second.add(1, 5.0)
  assert second.goodput == 0.5


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path, now):
  begin(tmp_path, 0, now)
  with (tmp_path / FILE).open("a") as file:
    file.write('{"start": 0, "ste')
  clock = begin(tmp_path, 0, now)
  clock.note(1)
  lines = (tmp_path / FILE).read_text().splitlines()
  assert [json.loads(line)["start"] for line in lines] == [0, 1, 1]


def test_a_run_that_another_version_began_has_no_share(tmp_path, now):
  begin(tmp_path, 10, now)
  now[0] = 1.0
  clock = begin(tmp_path, 20, now)
  now[0] = 2.0
  assert clock.goodput is None
  assert clock.seconds == 1


def test_a_folder_that_is_gone_is_told_in_one_line(tmp_path, now):
  with pytest.raises(RunFailed, match=r"the log cannot be written \(No such file or directory\)"):
    begin(tmp_path / "gone", 0, now)
