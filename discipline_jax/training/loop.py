"""The loop: step, log, evaluate, save, and stop in good order when told to."""

import dataclasses
import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from tqdm import tqdm

from discipline_jax.errors import RunFailed
from discipline_jax.training.checkpoints import Checkpoints
from discipline_jax.training.logs import MetricsLog


class Stopped(Exception):
  """A signal ended the run after a checkpoint; run the same command again to go on."""

  def __init__(self, signum: int, step: int):
    super().__init__(f"stopped at step {step}, which is saved; run the same command to go on")
    self.exit_code = 130 if signum == signal.SIGINT else 75


@dataclasses.dataclass(frozen=True)
class Every:
  """Steps between events; the last step always has all of them."""

  log: int
  evaluate: int
  checkpoint: int


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
  examples_per_step: int,
) -> tuple:
  """Runs updates `first_step` to `num_steps`.

  Args:
    state: donated by `train_step`.
    train_step: (state, step) -> (state, metrics), metrics one dict of arrays [replicas] on the device for each group.
    evaluate: (state, step) -> None; logs and keeps what it finds.
    tree_to_save: state -> what a checkpoint holds.
    schedule: update number -> learning rate, for the log.
    examples_per_step: of all replicas, for the rate.

  Returns:
    The state after the last step, and the median of examples per second of the training steps.

  Raises:
    RunFailed: a loss that is not finite. It is checked before anything is saved.
    Stopped: on SIGTERM or SIGINT, after a checkpoint. A second SIGINT ends the run at once.
  """
  pending: tuple[int, Sequence[Mapping]] | None = None
  losses: list[np.ndarray] = []
  seconds: list[float] = []

  def settle() -> dict[str, np.ndarray]:
    """Fetches the metrics of the latest step: only now must the device have finished it."""
    nonlocal pending
    if pending is None:
      return {}
    step, metrics = pending
    pending = None
    values = {
      name: np.concatenate([np.asarray(group[name]) for group in metrics]) for name in metrics[0]
    }
    if not np.isfinite(values["loss"]).all():
      last = checkpoints.latest_step
      raise RunFailed(
        f"the training loss is {values['loss'].tolist()} at step {step}; the last good checkpoint is"
        f" {'none' if last is None else f'step {last}'}; lower train.learning_rate"
      )
    losses.append(values["loss"])
    return values

  with (
    _Signals() as signals,
    tqdm(
      total=num_steps,
      initial=first_step,
      unit="step",
      dynamic_ncols=True,
      disable=jax.process_index() != 0,
    ) as bar,
  ):
    for step in range(first_step + 1, num_steps + 1):
      started = time.perf_counter()
      state, metrics = train_step(state, step - 1)
      settle()
      pending = step, metrics
      last = step == num_steps
      events = {
        name: last or step % getattr(every, name) == 0 for name in ("log", "evaluate", "checkpoint")
      }
      stop = signals.received
      if any(events.values()) or stop:
        values = settle()
        mean_loss = np.mean(losses, axis=0)
        losses.clear()
        for replica, loss in enumerate(mean_loss):
          log.write(
            step,
            "train",
            replica,
            loss=float(loss),
            grad_norm=float(values["grad_norm"][replica]),
            learning_rate=float(schedule(step - 1)),
          )
        bar.set_postfix(loss=f"{float(mean_loss.mean()):.4f}", refresh=False)
      seconds.append(time.perf_counter() - started)
      bar.update()
      if events["evaluate"]:
        evaluate(state, step)
      if events["checkpoint"] or stop:
        checkpoints.save(step, tree_to_save(state))
      if stop and not last:
        checkpoints.wait()
        raise Stopped(stop, step)
  checkpoints.wait()
  # The first step compiles; a step's time is its successor's wait for it, so the median is of the rest.
  typical = float(np.median(seconds[1:])) if len(seconds) > 1 else math.nan
  return state, examples_per_step / typical


class _Signals:
  """Notes SIGTERM and the first SIGINT, to be acted on between two steps."""

  received: int | None = None

  def __enter__(self) -> "_Signals":
    self._before = {
      number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)
    }
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def _note(self, number: int, _) -> None:
    if number == signal.SIGINT and self.received == signal.SIGINT:
      raise KeyboardInterrupt
    self.received = number
