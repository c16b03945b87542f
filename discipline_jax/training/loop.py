"""The training loop: update, run the hooks that are due, save, and stop in good order when told to."""

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from discipline_jax.errors import NotFinite, Stopped
from discipline_jax.files import progress
from discipline_jax.training.checkpoints import Checkpoints
from discipline_jax.training.clock import Clock
from discipline_jax.training.signals import Signals

# Metrics of an update by name, each an array [replicas].
Metrics = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Hook:
  """Something to do between two updates.

  Attributes:
    do: (state, step, metrics of the step) -> None.
    every: interval in updates; the hook also runs after the last update. None: it runs only at `steps`.
    steps: the updates after which it runs.
    at_stop: whether it also runs when the run is told to stop.
  """

  do: Callable[[Any, int, Metrics], None]
  every: int | None = None
  steps: Collection[int] = ()
  at_stop: bool = False

  def is_due(self, step: int, num_steps: int) -> bool:
    if self.every is not None and (step == num_steps or step % self.every == 0):
      return True
    return step in self.steps


def run(
  state,
  update: Callable,
  *,
  first_step: int,
  num_steps: int,
  hooks: Sequence[Hook],
  checkpoints: Checkpoints,
  save_every: int,
  signals: Signals,
  clock: Clock,
) -> Any:
  """Makes the updates `first_step` + 1 to `num_steps`.

  Args:
    state: is donated to `update`, and saved in checkpoints.
    update: (state, updates made) -> (state, metrics); metrics is one dict of arrays [replicas] on the device for each
      group of replicas.
    first_step: updates made before.
    num_steps: updates in all.
    hooks: are run in their order, before a checkpoint of the same step is written.
    checkpoints: where the state is saved.
    save_every: updates between two checkpoints; the last step is always saved.
    signals: tell when to stop.
    clock: gets the time of each update, and notes it with every hook that ran.

  Returns:
    The state after the last step.

  Raises:
    NotFinite: a loss or a gradient that is not finite. This is checked before anything is saved or evaluated.
    Stopped: on SIGTERM or SIGINT, after a checkpoint.
  """
  save = Hook(lambda state, step, _: checkpoints.save(step, state), save_every, at_stop=True)
  hooks = [*hooks, save]
  meter = _Meter(clock, checkpoints)
  with progress.bar(
    total=num_steps, initial=first_step, unit="step", disable=jax.process_index() != 0
  ) as bar:
    for step in range(first_step + 1, num_steps + 1):
      state, metrics = update(state, step - 1)
      meter.settle()  # the step before, while the device works on this one
      meter.pending = step, metrics
      bar.update()
      stop = signals.received(step)
      due = [hook for hook in hooks if hook.is_due(step, num_steps) or (stop and hook.at_stop)]
      if not due:
        continue
      values = meter.settle()
      bar.set_postfix(loss=f"{float(values['loss'].mean()):.4f}", refresh=False)
      for hook in due:
        hook.do(state, step, values)
      clock.note(step)
      if stop and step < num_steps:
        checkpoints.wait()
        raise Stopped(stop, step)
      meter.began = time.perf_counter()
  checkpoints.wait()
  return state


class _Meter:
  """Fetches the metrics of an update once the device has finished it, checks them, and measures its time.

  Attributes:
    pending: the latest update and its metrics on the device, until they are fetched.
    began: when the device began to work on it.
  """

  def __init__(self, clock: Clock, checkpoints: Checkpoints):
    self._clock, self._checkpoints = clock, checkpoints
    self.pending: tuple[int, Sequence[Mapping]] | None = None
    self.began = time.perf_counter()

  def settle(self) -> Metrics:
    """Fetches the pending metrics once the device has finished the update; raises NotFinite if one is not finite."""
    if self.pending is None:
      return {}
    step, metrics = self.pending
    self.pending = None
    values = {
      name: np.concatenate([np.asarray(group[name]) for group in metrics]) for name in metrics[0]
    }
    now = time.perf_counter()
    self._clock.add(step, now - self.began)
    self.began = now
    if not all(np.isfinite(value).all() for value in values.values()):
      last = self._checkpoints.last_whole_step()
      raise NotFinite(
        f"the training loss is {values['loss'].tolist()} and the gradient's norm {values['grad_norm'].tolist()}"
        f" at step {step}; the last good checkpoint is {'none' if last is None else f'step {last}'};"
        " lower train.learning_rate, in another --workdir"
      )
    return values
