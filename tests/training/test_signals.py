"""Tests that all processes of a run stop after the same step, without comparing notes after every step."""

import os
import signal

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils

from discipline_jax.training.signals import AGREE_EVERY, Signals


def test_one_process_stops_at_once():
  with Signals() as signals:
    assert signals.received(1) == 0
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.received(2) == signal.SIGTERM


def test_a_second_interrupt_is_at_once():
  with Signals() as signals:
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.received(1) == signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
      os.kill(os.getpid(), signal.SIGINT)


def test_processes_agree_now_and_then(monkeypatch):
  """The other process has received the signal; this one learns of it at the next comparison."""
  asked = []

  def allgather(value):
    asked.append(int(value))
    return np.array([value, signal.SIGTERM])

  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(multihost_utils, "process_allgather", allgather)
  with Signals() as signals:
    found = [signals.received(step) for step in range(1, 2 * AGREE_EVERY + 1)]
  expected = [signal.SIGTERM if step % AGREE_EVERY == 0 else 0 for step in range(1, 21)]
  assert found == expected
  assert asked == [0, 0]
