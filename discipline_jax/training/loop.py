"""The loop: step, log, evaluate, save, and stop in good order when told to."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from discipline_jax import progress
from discipline_jax.errors import RunFailed
from discipline_jax.training.checkpoints import Checkpoints
from discipline_jax.training.logs import MetricsLog
from discipline_jax.training.signals import Signals, Stopped


@dataclasses.dataclass(frozen=True)
class Every:
  """Steps between events; the last step always has all of them.

  Attributes:
    keep: the very steps whose state is given to `keep`.
  """

  log: int
  evaluate: int
  checkpoint: int
  keep: tuple[int, ...] = ()


def run(
  state,
  *,
  first_step: int,
  num_steps: int,
  train_step: Callable,
  evaluate: Callable,
  tree_to_save: Callable,
  every: Every,
  schedule: Callable[[int], float],
  log: MetricsLog,
  checkpoints: Checkpoints,
  signals: Signals,
  work: Callable[[int], int],
  keep: Callable | None = None,
) -> tuple:
  """Runs updates `first_step` + 1 to `num_steps`.

  Args:
    state: donated by `train_step`.
    train_step: (state, updates made) -> (state, metrics); metrics is one dict of arrays [replicas] on the
      device for each group.
    evaluate: (state, step) -> None; logs and keeps what it finds.
    tree_to_save: state -> what a checkpoint holds.
    schedule: updates made -> learning rate, for the log.
    work: updates made -> examples or tokens of the next one, of all replicas, for the rate.
    keep: (state, step) -> None, at the steps `every.keep`, before a checkpoint of the same step is written.

  Returns:
    The state after the last step, and the median over the updates of their work per second (NaN for fewer than two).

  Raises:
    RunFailed: a loss or a gradient that is not finite. Checked before anything is saved or evaluated.
    Stopped: on SIGTERM or SIGINT, after a checkpoint.
  """
  pending: tuple[int, Sequence[Mapping]] | None = None
  rates: list[float] = []
  clock = time.perf_counter()

  def settle() -> dict[str, np.ndarray]:
    """Fetches the metrics of the latest step: only now must the device have finished it."""
    nonlocal pending, clock
    if pending is None:
      return {}
    step, metrics = pending
    pending = None
    values = {
      name: np.concatenate([np.asarray(group[name]) for group in metrics]) for name in metrics[0]
    }
    now = time.perf_counter()
    rates.append(work(step - 1) / (now - clock))
    clock = now
    if not all(np.isfinite(value).all() for value in values.values()):
      last = checkpoints.last_whole_step()
      raise RunFailed(
        f"the training loss is {values['loss'].tolist()} and the gradient's norm {values['grad_norm'].tolist()}"
        f" at step {step}; the last good checkpoint is {'none' if last is None else f'step {last}'};"
        " lower train.learning_rate"
      )
    return values

  with progress.bar(
    total=num_steps, initial=first_step, unit="step", disable=jax.process_index() != 0
  ) as bar:
    for step in range(first_step + 1, num_steps + 1):
      state, metrics = train_step(state, step - 1)
      settle()  # of the step before, while the device works on this one
      pending = step, metrics
      bar.update()
      stop = signals.received()

      def due(interval: int, step: int = step) -> bool:
        return step == num_steps or step % interval == 0

      is_kept = keep is not None and step in every.keep
      if not (stop or is_kept or due(every.log) or due(every.evaluate) or due(every.checkpoint)):
        continue
      values = settle()
      if due(every.log):
        bar.set_postfix(loss=f"{float(values['loss'].mean()):.4f}", refresh=False)
        rate = float(schedule(step - 1))
        for replica in range(len(values["loss"])):
          measured = {name: float(value[replica]) for name, value in values.items()}
          log.write(step, "train", replica, **measured, learning_rate=rate)
      if due(every.evaluate):
        evaluate(state, step)
      if keep is not None and is_kept:
        keep(state, step)
      if stop or due(every.checkpoint):
        checkpoints.save(step, tree_to_save(state))
      if stop and step < num_steps:
        checkpoints.wait()
        raise Stopped(stop, step)
      clock = time.perf_counter()
  checkpoints.wait()
  # The first one begins to read, and may compile.
  return state, float(np.median(rates[1:])) if len(rates) > 1 else math.nan
