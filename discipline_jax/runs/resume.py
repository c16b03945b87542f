"""Begins a run: a new one from its first state, a stopped one from its last checkpoint."""

import pathlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils

from discipline_jax.errors import UserError
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.checkpoints import Checkpoints


@runtime_checkable
class Program(Protocol):
  """The programs of a run, as the modules of `programs` have them.

  Attributes:
    state: shapes, dtypes and shardings of the state that a checkpoint holds.
    directories: directories of the pre-trained models that are read, by the field of the config that names them.
  """

  @property
  def state(self) -> Any: ...

  @property
  def directories(self) -> Mapping[str, pathlib.Path]: ...

  def lower(self, first_step: int = 0) -> Mapping[int, jax.stages.Lowered]:
    """Lowers the training steps of the updates that follow `first_step`."""

  def compile(self, lowered: Mapping[int, jax.stages.Lowered]) -> None:
    """Compiles what `lower` returned."""

  def start(self) -> Any:
    """Returns the state before the first update."""


def begin(program: Program, run: Workdir) -> tuple[Checkpoints, int, Any]:
  """Returns the run's checkpoints, the number of updates made, and the state after them.

  A new run compiles its programs and reads its weights before it claims its workdir: if they do not fit into memory, or
  the weights are wrong, the workdir stays free for the corrected run.

  Args:
    program: programs of the run.
    run: its workdir, entered.

  Raises:
    UserError: weights or checkpoints that cannot be read, checkpoints of a run without a config, or input files that
      are not those with which the run began.
  """
  folder = run.path / "checkpoints"
  is_claimed = run.is_claimed()
  if is_claimed:
    run.check_inputs(program.directories)
  if jax.process_count() > 1:  # the first process decides, so that all of them do the same things
    is_claimed = bool(multihost_utils.broadcast_one_to_all(np.bool_(is_claimed)))
  if not is_claimed:
    if any(folder.glob("[0-9]*")):
      raise UserError(
        f"there are checkpoints but no config.json, {run.path}; give another --workdir, or delete that folder"
      )
    lowered = program.lower()
    background = ThreadPoolExecutor(max_workers=1)
    compilation = background.submit(program.compile, lowered)
    background.shutdown(wait=False)
    state = program.start()
    compilation.result()
    run.claim(program.directories)
    return Checkpoints(folder), 0, state
  checkpoints = Checkpoints(folder)
  try:
    first_step, state = checkpoints.restore(program.state)
    if first_step:
      logging.warning("Resuming from step %d, %s", first_step, run.path)
    program.compile(program.lower(first_step))
    return checkpoints, first_step, state or program.start()
  except BaseException:
    checkpoints.close()
    raise
