"""Keeps the processes of a run together: they start alike, and when one fails, all end with its reason and code.

Without it the others would wait for the one that failed, until JAX ends them half a minute later, without a reason.
"""

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

from flax import traverse_util
from jax._src import distributed  # the store of the coordinator has no public name
from jax.errors import JaxRuntimeError
from ml_collections import ConfigDict

from discipline_jax.errors import Stopped, UserError
from discipline_jax.exit_codes import outcome
from discipline_jax.files.places import Path
from discipline_jax.runs.result import versions

_START, _FAILED, _MEET, _END = (
  f"discipline_jax/{name}" for name in ("start", "failed", "meet", "end")
)
_PLACES = ("data_dir", "cache_dir")  # hosts may keep their files in other places
_ABORTED = 134  # the exit code of JAX when another process has died
_BUG = 1
# In milliseconds, how long a process waits for the others: to say how the first was started; to fail in the same place,
# though they prepare their data one after the other; to be done with what only one of them does; to hear of an end.
_ANSWER, _ALIKE, _WORK, _LINGER = 60_000, 300_000, 3_600_000, 10_000
_POLL = 1.0  # seconds between two looks at whether another process has ended
_GRACE = 3.0  # seconds for which a process may come to the same end by itself


@contextlib.contextmanager
def together() -> Iterator[None]:
  """Runs what stands inside as one of the processes of a run; does nothing if there is only one.

  A process in which anything but `Stopped` is raised does not leave this context, but ends here, and so do the others:
  with its line and its exit code. If the others do not answer, an error that is no mistake of the user, of the machine
  or of a network's training is taken for the death of one of them, and has the code that JAX gives to that.
  """
  client = distributed.global_state.client
  if client is None:
    yield
    return
  ending, is_over = threading.Lock(), threading.Event()
  watcher = threading.Thread(target=_watch, args=(client, ending, is_over), daemon=True)
  watcher.start()
  try:
    try:
      yield
    except Stopped:  # all of them stop at the same step
      meet("stopped")
      raise
    meet("done")
  except Stopped:
    is_over.set()
    watcher.join()
    raise
  except BaseException as error:
    ending.acquire()  # for good: if this process is ending already, it does so here
    known = outcome(error)
    if known is None:
      traceback.print_exception(error)
    line, code = known or (f"error: {type(error).__name__}: {' '.join(str(error).split())}", _BUG)
    _end(client, line, _told(client, line, code))
  is_over.set()
  watcher.join()


def check_alike(config: ConfigDict, workdir: Path, *, dry_run: bool) -> None:
  """Checks that all processes were started with the same config, flags and versions of the packages.

  Args:
    config, workdir, dry_run: of this process.

  Raises:
    UserError: the first process has others.
  """
  client: Any = distributed.global_state.client
  if client is None:
    return
  fields = traverse_util.flatten_dict(json.loads(config.to_json_best_effort()), sep=".")
  own = {"--workdir": str(workdir), "--dry-run": dry_run}
  own |= {name: value for name, value in fields.items() if name.rpartition(".")[2] not in _PLACES}
  own |= {f"the version of {name}": number for name, number in versions().items()}
  own = json.loads(json.dumps(own))
  if distributed.global_state.process_id == 0:
    client.key_value_set(_START, json.dumps(own))
    return
  first = json.loads(client.blocking_key_value_get(_START, _ANSWER))
  for name in sorted({*own, *first}):
    if own.get(name) != first.get(name):
      raise UserError(
        f"{name} is {own.get(name)!r} here and {first.get(name)!r} in process 0; start all processes with the same"
        " command and the same versions"
      )


def meet(place: str) -> None:
  """Waits until all processes have come here, as when only the first has something to do; returns at once for one.

  Args:
    place: names the place; not used twice.
  """
  client: Any = distributed.global_state.client
  if client is not None:
    client.wait_at_barrier(f"{_MEET}/{place}", _WORK)


def fail_alike(place: str) -> bool:
  """Returns whether all processes fail in the same place, so that a run of several may go on behind it.

  If one fails alone, the others wait for it inside a program, and all must end; that is known after five minutes.

  Args:
    place: names what failed; not used twice.
  """
  client: Any = distributed.global_state.client
  return client is None or _all_answer(client, f"{_FAILED}/{place}", _ALIKE)


def _watch(client: Any, ending: threading.Lock, is_over: threading.Event) -> None:
  """Ends this process when another one has told its end."""
  while not is_over.wait(_POLL):
    found = _read_end(client)
    if found is None:
      continue
    time.sleep(_GRACE)
    ending.acquire()
    number, line, code = found
    kind, _, reason = line.partition(": ")
    _end(client, f"{kind}: process {number}: {reason}", code)


def _read_end(client: Any) -> tuple[int, str, int] | None:
  try:
    number, line, code = json.loads(client.key_value_try_get(_END))
  except JaxRuntimeError:  # nobody has told one
    return None
  return number, line, code


def _told(client: Any, line: str, code: int) -> int:
  """Tells the others the end of this process; returns the exit code of all, which is that of the first to tell."""
  try:
    client.key_value_set(_END, json.dumps([distributed.global_state.process_id, line, code]))
  except JaxRuntimeError:  # another process was first, or the first process is gone
    first = _read_end(client)
    return code if first is None else first[2]
  return code


def _end(client: Any, line: str, code: int) -> NoReturn:
  try:
    print(line, file=sys.stderr)
    if not _all_answer(client, _END, _LINGER) and code == _BUG:
      print("error: another process of this run died; run the same command again", file=sys.stderr)
      code = _ABORTED
    if distributed.global_state.process_id == 0:
      time.sleep(1)  # the others need its answer
    sys.stdout.flush()
    sys.stderr.flush()
  finally:
    # Not `sys.exit`: other threads of this process wait for processes that have ended.
    os._exit(code)


def _all_answer(client: Any, place: str, milliseconds: int) -> bool:
  try:
    client.wait_at_barrier(place, milliseconds)
  except JaxRuntimeError:
    return False
  return True
