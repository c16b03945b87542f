"""A run's directory: whose it is, whether it is finished, and its two JSON files."""

import fcntl
import json
import pathlib

import jax
from flax import traverse_util
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.whole_files import whole_file

# Where files lie does not change what a run computes.
_PLACES = ("data_dir", "cache_dir")


class Workdir:
  """A run's directory. Nothing is written before it is entered, as a context manager, by the run that works in it.

  Raises:
    UserError: on entering: another process works in it, or it cannot be made. From every method: it
      belongs to a run with another config.
  """

  def __init__(self, path: pathlib.Path, config: ConfigDict):
    self.path = path
    self._config = config

  def __enter__(self) -> "Workdir":
    try:
      self.path.mkdir(parents=True, exist_ok=True)
      self._lock = (self.path / ".lock").open("w")
    except OSError as error:
      raise UserError(
        f"cannot write to the workdir ({error.strerror}), {self.path}; give another --workdir"
      ) from None
    try:
      if jax.process_index() == 0:
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      self._lock.close()
      raise UserError(
        f"another process works in {self.path}; wait for it or give another --workdir"
      ) from None
    return self

  def __exit__(self, *_) -> None:
    self._lock.close()

  def is_claimed(self) -> bool:
    """Whether a run has begun here; another config than ours is an error."""
    self._check_owner()
    return (self.path / "config.json").exists()

  def claim(self) -> None:
    """Writes config.json, which makes the directory this run's; does nothing where it is already."""
    if not self.is_claimed():
      self._write("config.json", self._ours())

  def result(self) -> dict | None:
    """What the finished run wrote, or None."""
    self._check_owner()
    path = self.path / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

  def write_result(self, result: dict) -> None:
    """Marks the run as finished."""
    self._write("result.json", result)

  def _ours(self) -> dict:
    return json.loads(self._config.to_json_best_effort())

  def _check_owner(self) -> None:
    path = self.path / "config.json"
    if not path.exists():
      return
    try:
      theirs = _flat(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, AttributeError):  # not UTF-8, not JSON, or not an object
      raise UserError(f"not a config, {path}; give another --workdir, or delete this one") from None
    ours = _flat(self._ours())
    changed = sorted(
      name
      for name in {*ours, *theirs}
      if name not in _PLACES and ours.get(name) != theirs.get(name)
    )
    if changed:
      name = changed[0]
      raise UserError(
        f"{name} is {ours.get(name)!r}, but the run in this workdir has {theirs.get(name)!r}, {path};"
        " give another --workdir, or delete this one"
      )

  def _write(self, name: str, content: dict) -> None:
    if jax.process_index() != 0:
      return
    with whole_file(self.path / name, text=True) as file:
      file.write(json.dumps(content, indent=2) + "\n")


def _flat(tree: dict) -> dict:
  return traverse_util.flatten_dict(tree, sep=".")
