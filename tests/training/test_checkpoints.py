"""Tests checkpoints when the disk is full; tests of whole runs check that they are restored."""

import errno
import logging

import jax.numpy as jnp
import orbax.checkpoint as ocp
import pytest

from discipline_jax.errors import RunFailed
from discipline_jax.training.checkpoints import Checkpoints

# As TensorStore says it.
FULL = 'RESOURCE_EXHAUSTED: Error writing "params/0" in OCDBT database: No space left on device'


@pytest.mark.parametrize("error", [ValueError(FULL), OSError(errno.ENOSPC, "No space left")])
@pytest.mark.parametrize(
  ("broken", "call"),
  [
    ("save", lambda checkpoints: checkpoints.save(9, {"a": jnp.zeros(3)})),
    ("wait_until_finished", Checkpoints.wait),
    ("close", Checkpoints.close),
  ],
)
def test_a_full_disk_names_the_last_whole_checkpoint(error, broken, call, tmp_path, monkeypatch):
  def fail(*_, **__):
    raise error

  checkpoints = Checkpoints(tmp_path)
  checkpoints.save(7, {"a": jnp.zeros(3)})
  checkpoints.wait()
  monkeypatch.setattr(ocp.CheckpointManager, broken, fail)
  with pytest.raises(RunFailed, match=f"the disk is full, {tmp_path}; .* checkpoint is step 7;"):
    call(checkpoints)


def test_other_errors_are_what_they_are(tmp_path, monkeypatch):
  def fail(*_, **__):
    raise ValueError("a bug")

  monkeypatch.setattr(ocp.CheckpointManager, "save", fail)
  with pytest.raises(ValueError, match="a bug"):
    Checkpoints(tmp_path).save(1, {"a": jnp.zeros(3)})


def test_what_is_raised_is_not_logged_too(tmp_path, caplog):
  Checkpoints(tmp_path).close()
  logger = logging.getLogger("asyncio")
  try:
    raise ValueError("lost")
  except ValueError:
    logger.exception("Task exception was never retrieved")
  logger.warning("something else")
  assert caplog.messages == ["something else"]
