"""Checkpoints of a run: Orbax, asynchronous, each one whole or absent."""

import pathlib

import jax
import orbax.checkpoint as ocp

from discipline_jax.errors import RunFailed, UserError


class Checkpoints:
  """The checkpoints in `directory`; the latest two are kept, so that one survives whatever befalls the other."""

  def __init__(self, directory: pathlib.Path):
    self._directory = directory
    options = ocp.CheckpointManagerOptions(
      max_to_keep=2, cleanup_tmp_directories=True, enable_async_checkpointing=True
    )
    self._manager = ocp.CheckpointManager(directory.absolute(), options=options)

  @property
  def latest_step(self) -> int | None:
    return self._manager.latest_step()

  def save(self, step: int, tree) -> None:
    """Begins to save; arrays may be donated as soon as this returns."""
    self._guard(lambda: self._manager.save(step, args=ocp.args.StandardSave(tree)), step)

  def restore(self, tree):
    """The latest checkpoint, with the shapes, dtypes and shardings of `tree`."""
    step = self._manager.latest_step()
    abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
    try:
      return self._manager.restore(step, args=ocp.args.StandardRestore(abstract))
    except (ValueError, KeyError, OSError) as error:
      raise UserError(
        f"the checkpoint of step {step} does not fit this run ({str(error).splitlines()[0]}), {self._directory};"
        " choose another --workdir"
      ) from None

  def wait(self) -> None:
    """Returns when all saves are on disk."""
    self._guard(self._manager.wait_until_finished, self._manager.latest_step())

  def close(self) -> None:
    self._manager.close()

  def _guard(self, write, step) -> None:
    try:
      write()
    except (OSError, ValueError) as error:  # tensorstore reports a full disk as a ValueError
      last = max(
        (int(path.name) for path in self._directory.iterdir() if path.name.isdigit()),
        default="none",
      )
      raise RunFailed(
        f"the checkpoint of step {step} could not be written ({str(error).splitlines()[0]}),"
        f" {self._directory}; the last whole one is step {last}; free space and run again"
      ) from error
