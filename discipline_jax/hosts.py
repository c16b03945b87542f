"""Keeps the processes of a run together: they start alike, and when one fails, all end with its reason and code.

Without it the others would wait for the one that failed, until JAX ends them half a minute later, without a reason.
"""

import contextlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

import jax
from flax import traverse_util
from jax._src import distributed  # the store of the coordinator has no public name
from ml_collections import ConfigDict

from discipline_jax.errors import Stopped, UserError
from discipline_jax.exit_codes import outcome
from discipline_jax.runs.result import versions

_START, _FAILED, _END = (f"discipline_jax/{name}" for name in ("start", "failed", "end"))
_PLACES = ("data_dir", "cache_dir")  # hosts may keep their files in other places
_WAIT = (
  60_000  # milliseconds for which a process waits until the first one has said how it was started
)
_LINGER = 10_000  # milliseconds for which a process that ends stays, so that the others hear why
_POLL = 1.0  # seconds


@contextlib.contextmanager
def together(config: ConfigDict) -> Iterator[None]:
  """Runs what stands inside as one of the processes of a run; does nothing if there is only one.

  A process in which anything but `Stopped` is raised does not leave this context, but ends here, and so do the others:
  with its line and its exit code.

  Args:
    config: of this process; all must have the same, and the same versions of the packages.
  """
  if jax.process_count() == 1:
    yield
    return
  client: Any = distributed.global_state.client
  ending, is_over = threading.Lock(), threading.Event()
  threading.Thread(target=_watch, args=(client, ending, is_over), daemon=True).start()
  try:
    _check_alike(client, config)
    yield
    is_over.set()
  except Stopped:  # all of them stop at the same step
    is_over.set()
    raise
  except BaseException as error:
    ending.acquire()  # for good: if another process told its end before, this one is ending already
    line, code = outcome(error) or (f"error: {type(error).__name__}: {error}", 1)
    if outcome(error) is None:
      traceback.print_exception(error)
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # another process was first
      client.key_value_set(_END, json.dumps([jax.process_index(), line, code]))
    _end(client, line, code)


def fail_alike(place: str) -> bool:
  """Returns whether all processes fail in the same place, so that a run of several may go on behind it.

  If one fails alone, the others wait for it inside a program, and all must end.

  Args:
    place: names what failed; not used twice.
  """
  if jax.process_count() == 1:
    return True
  client: Any = distributed.global_state.client
  try:
    client.wait_at_barrier(f"{_FAILED}/{place}", _LINGER)
  except jax.errors.JaxRuntimeError:
    return False
  return True


def _watch(client: Any, ending: threading.Lock, is_over: threading.Event) -> None:
  """Ends this process when another one has told its end."""
  while not is_over.wait(_POLL):
    try:
      number, line, code = json.loads(client.key_value_try_get(_END))
    except jax.errors.JaxRuntimeError:  # nobody has
      continue
    ending.acquire()
    kind, _, reason = line.partition(": ")
    _end(client, f"{kind}: process {number}: {reason}", code)


def _end(client: Any, line: str, code: int) -> NoReturn:
  print(line, file=sys.stderr)
  with contextlib.suppress(jax.errors.JaxRuntimeError):  # one of them was killed, or hangs
    client.wait_at_barrier(_END, _LINGER)
  sys.stdout.flush()
  sys.stderr.flush()
  # Not `sys.exit`: other threads of this process wait for processes that have ended.
  os._exit(code)


def _check_alike(client: Any, config: ConfigDict) -> None:
  """Raises UserError if the first process was started with another config or other versions."""
  fields = traverse_util.flatten_dict(json.loads(config.to_json_best_effort()), sep=".")
  own = {name: value for name, value in fields.items() if name not in _PLACES} | versions()
  if jax.process_index() == 0:
    client.key_value_set(_START, json.dumps(own))
    return
  first = json.loads(client.blocking_key_value_get(_START, _WAIT))
  own = json.loads(json.dumps(own))
  for name in sorted({*own, *first}):
    if own.get(name) != first.get(name):
      raise UserError(
        f"{name} is {own.get(name)!r} here and {first.get(name)!r} in process 0; start all processes with the same"
        " command and the same packages"
      )
