"""Checks of single fields of a config."""

import math
from collections.abc import Iterable

from ml_collections import ConfigDict

from discipline_jax.errors import UserError


def at_least(config: ConfigDict, least: int, names: Iterable[str]) -> None:
  """Raises UserError where one of these fields, by dotted name, is set to less, or to no finite number."""
  for name in names:
    value = _field(config, name)
    if value is None:
      continue
    if not (math.isfinite(value) and value >= least):
      what = (
        f"less than {least}" if math.isfinite(value) and least else f"not a number from {least} on"
      )
      raise UserError(f"{name} = {value} is {what}; set --config.{name}")


def rates(config: ConfigDict, names: Iterable[str]) -> None:
  """Raises UserError where one of these fields is set, and not in [0, 1)."""
  for name in names:
    value = _field(config, name)
    if value is not None and not 0 <= value < 1:
      raise UserError(f"{name} = {value} is not in [0, 1); set --config.{name}")


def one_of(config: ConfigDict, choices: dict[str, Iterable[str]]) -> None:
  """Raises UserError where a field is none of its choices."""
  for name, known in choices.items():
    value = _field(config, name)
    if value not in known:
      raise UserError(f"{name} = {value!r} is not one of: {', '.join(known)}")


def _field(config: ConfigDict, name: str):
  for part in name.split("."):
    config = config[part]
  return config
