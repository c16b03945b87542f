"""A run's directory: which run owns it, whether the run is finished, and its two JSON files."""

import json
import pathlib

import jax
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files.locks import lock
from discipline_jax.files.whole_files import whole_file
from discipline_jax.runs.identity import first_difference


class Workdir:
  """A run's directory. As a context manager it is locked, and only then is anything written.

  Raises:
    UserError: on entering, if another process works in it or it cannot be written; from every method, if it belongs to
      another run.
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
        lock(self._lock, wait=False)
    except BlockingIOError:
      self._lock.close()
      raise UserError(
        f"another process works in {self.path}; wait for it or give another --workdir"
      ) from None
    return self

  def __exit__(self, *_) -> None:
    self._lock.close()

  def is_claimed(self) -> bool:
    """Returns whether this run has begun here; raises UserError if another run has."""
    self._check_owner()
    return (self.path / "config.json").exists()

  def claim(self) -> None:
    """Writes config.json, which makes the directory this run's; does nothing if it is already."""
    if not self.is_claimed():
      self._write("config.json", json.loads(self._config.to_json_best_effort()))

  def result(self) -> dict | None:
    """Returns the result of the finished run, or None."""
    self._check_owner()
    path = self.path / "result.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

  def write_result(self, result: dict) -> None:
    """Writes result.json, which marks the run as finished."""
    self._write("result.json", result)

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
    if difference is not None:
      name, own, other = difference
      raise UserError(
        f"{name} is {own!r}, but the run in this workdir has {other!r}, {path};"
        f" give another --workdir, or delete the folder {self.path}"
      )

  def _write(self, name: str, content: dict) -> None:
    if jax.process_index() != 0:
      return
    with whole_file(self.path / name, text=True) as file:
      file.write(json.dumps(content, indent=2) + "\n")
