"""A run's directory: which run owns it, whether the run is finished, and its three JSON files."""

import json
import pathlib
import secrets
import shlex
import time
from collections.abc import Mapping
from typing import IO, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax.errors import Locked, UserError
from discipline_jax.files.leases import Lease
from discipline_jax.files.locks import hold, is_held
from discipline_jax.files.places import Path, make_folder
from discipline_jax.files.whole_files import whole_file, write_json
from discipline_jax.runs import check_inputs, inputs
from discipline_jax.runs.identity import first_difference

_LOCK = ".lock"
_TOKEN = ".first_host"  # what the first of several processes writes, and the others look for
_SEEN_WITHIN = (
  120.0  # seconds; another host may keep for one minute that a file was not there (`nfs`: acdirmax)
)


class Workdir:
  """A run's directory. As a context manager it is locked, and only then is anything written.

  Raises:
    Locked: on entering, if another process works in it.
    UserError: on entering, if it cannot be written; in every method that reads it, if it belongs to a run with another
      config; in methods that say so, also if it belongs to a run with other input files.
  """

  def __init__(self, path: Path, config: ConfigDict):
    self.path = path
    self._config = config
    self._stamps: dict[pathlib.Path, inputs.Stamp] = {}
    self._lock: IO[str] | Lease | None = None  # of the first process
    self._token = 0

  def __enter__(self) -> "Workdir":
    if jax.process_index() == 0:
      self._open()
    if jax.process_count() > 1:
      self._check_seen()
    elif self._token < 0:
      self._raise_locked()
    return self

  def __exit__(self, *_) -> None:
    if self._lock is not None:
      self._lock.close()

  def is_locked(self) -> bool:
    """Returns whether another process works in it at this moment; writes nothing."""
    return is_held(self.path / _LOCK)

  def is_claimed(self) -> bool:
    """Returns whether this run has begun here; raises UserError if another run has."""
    self._check_owner()
    return (self.path / "config.json").exists()

  def describe(self) -> str:
    """Returns its path, and how far its run is; raises UserError if another run has begun here."""
    state = "begun before" if self.is_claimed() else ""
    state = "finished before" if state and (self.path / "result.json").exists() else state
    return ", ".join(filter(None, (str(self.path), state)))

  def claim(self, directories: Mapping[str, pathlib.Path]) -> None:
    """Writes inputs.json and config.json, which make the directory this run's; does nothing if it is already.

    Args:
      directories: directories of the checkpoints that the run reads, by the field of the config that names them.

    Raises:
      UserError: an input file has changed since `result` was called, so that it is not clear what was read.
    """
    if self.is_claimed():
      return
    files = inputs.find(self._config, directories)
    for path, stamp in inputs.stamps(files).items():
      if self._stamps.get(path, stamp) != stamp:
        raise UserError(f"the file was changed while the run began, {path}; start the run again")
    if jax.process_index() == 0:
      self._write(check_inputs.FILE, inputs.to_json(inputs.record(files)))
      self._write("config.json", json.loads(self._config.to_json_best_effort()))

  def result(self) -> dict | None:
    """Returns the result of the finished run, or None; compares the input files that are there.

    Raises:
      UserError: the run began with other input files, or the file is no result of such a run.
    """
    result = self.peek()
    if result is not None:
      check_inputs.check_finished(self._config, self.path)
      return result
    if self.is_claimed():
      check_inputs.check_stopped(self._config, self.path)
    elif not self._stamps:
      self._stamps = inputs.stamps(inputs.find(self._config, {}))
    return None

  def peek(self) -> dict | None:
    """Returns the result of the finished run, or None; looks at no input files.

    Raises:
      UserError: the file is no result of such a run.
    """
    path = self.path / "result.json"
    if not path.exists():
      return None
    self._check_owner()
    return self._read_result(path)

  def check_inputs(self, directories: Mapping[str, pathlib.Path]) -> None:
    """Compares all input files of a run that goes on, after they were read.

    Args:
      directories: see `claim`.

    Raises:
      UserError: the run began with other input files.
    """
    check_inputs.check_stopped(self._config, self.path, directories)

  def input_digests(self) -> dict[str, str] | None:
    """Returns a digest for each field that names input files; None if a version that kept none began the run."""
    recorded = check_inputs.read(self.path)
    return None if recorded is None else inputs.summary(recorded)

  def write_result(self, result: dict) -> None:
    """Writes result.json, which marks the run as finished."""
    if jax.process_index() == 0:
      self._write("result.json", result)

  def _open(self) -> None:
    """Makes the directory, and locks it if it is not locked already: then the token is -1."""
    try:
      make_folder(self.path)
      self._lock = hold(self.path / _LOCK, wait=False)
    except BlockingIOError:
      self._token = -1
      return
    except TimeoutError:  # a bucket that does not answer is no mistake of the user
      raise
    except OSError as error:
      raise UserError(
        f"cannot write to the workdir ({error.strerror}), {self.path}; give another --workdir"
      ) from None
    self._token = secrets.randbits(31)
    if jax.process_count() > 1:
      with whole_file(self.path / _TOKEN, text=True) as token:
        token.write(str(self._token))

  def _check_seen(self) -> None:
    """Raises Locked in all processes if the first one found a lock, and UserError in one that sees no token."""
    first = int(multihost_utils.broadcast_one_to_all(np.int32(self._token)))
    if first < 0:
      self._raise_locked()
    deadline = time.monotonic() + _SEEN_WITHIN
    while not self._sees(str(first)):
      if time.monotonic() > deadline:
        raise UserError(
          f"what process 0 wrote to its workdir cannot be seen in {self.path.absolute()}; give a --workdir that all"
          " hosts share"
        )
      time.sleep(0.5)

  def _sees(self, token: str) -> bool:
    # Asks for the names first: a network's file system may know only then that there is a new one.
    is_there = self.path.is_dir() and any(one.name == _TOKEN for one in self.path.iterdir())
    return is_there and (self.path / _TOKEN).read_text(encoding="utf-8") == token

  def _raise_locked(self) -> NoReturn:
    raise Locked(f"another process works in {self.path}; wait for it or give another --workdir")

  def _read_result(self, path: Path) -> dict:
    mode = self._config.mode
    try:
      result = json.loads(path.read_text(encoding="utf-8"))
      is_own = result.get("mode", mode) == mode
    except (ValueError, AttributeError):  # not UTF-8, not JSON, or not an object
      is_own = False
    if not is_own:
      raise UserError(
        f"not the result of a run with mode {mode}, {path}; delete it, and the run ends again from its last checkpoint"
      )
    return result

  def _check_owner(self) -> None:
    path = self.path / "config.json"
    if not path.exists():
      return
    try:
      theirs = json.loads(path.read_text(encoding="utf-8"))
      difference = first_difference(self._config, theirs)
    except (ValueError, TypeError, AttributeError):  # not UTF-8, not JSON, or not an object
      raise UserError(
        f"not a config, {path}; give another --workdir, or delete the folder {self.path}"
      ) from None
    if difference is not None and difference[0] == "model.checkpoint" and self._is_moved():
      theirs["model"]["checkpoint"] = self._config.model.checkpoint
      difference = first_difference(self._config, theirs)
    if difference is not None:
      name, own, other = difference
      value = tuple(other) if isinstance(other, list) else other
      setting = shlex.quote(f"--config.{name}={value}")
      # A config of another mode has other fields.
      rest = "" if name == "mode" else f", or set {setting} to go on with that run"
      raise UserError(
        f"{name} is {own!r}, but the run in this workdir has {other!r}, {path}; give another --workdir{rest}"
      )

  def _is_moved(self) -> bool:
    """Returns whether the checkpoint is at another place than when the run began, with the same content."""
    field = "model.checkpoint"
    recorded = check_inputs.read(self.path) or {}
    if field not in recorded or field in inputs.hub_directories(recorded):
      return False
    found = inputs.find(self._config, {})[field]
    return bool(found) and not inputs.compare({field: found}, recorded)

  def _write(self, name: str, content: dict) -> None:
    write_json(self.path / name, content)
