"""Checks how the arguments of a command are written, before any of them is read."""

import re
from collections.abc import Sequence

from discipline_jax.errors import UserError

EXAMPLE = "--config=configs/quickstart.py"
_VALUED = r"(?:workdir|config(?:\.[\w.-]+)?)"  # names of flags that have a value; those of switches need none
_DASHES = "\u2013\u2014"  # what text processors make of hyphens


def joined(argv: Sequence[str]) -> list[str]:
  """Returns the arguments with `--FLAG VALUE` written as `--FLAG=VALUE`, for the flags that have values."""
  whole: list[str] = []
  for argument in argv:
    is_flag = re.match(r"--?[A-Za-z]", argument)
    if whole and not is_flag and re.fullmatch(rf"--{_VALUED}", whole[-1]):
      whole[-1] += f"={argument}"
    else:
      whole.append(re.sub(r"^-(?=config\b|workdir\b)", "--", argument))
  return whole


def check(given: Sequence[str]) -> None:
  """Raises UserError if a flag has no value or no hyphens, or a field stands before the config."""
  configs = [one for one in given if one.startswith("--config=")]
  if len(configs) > 1:
    raise UserError(f"--config is given {len(configs)} times ({', '.join(configs)}); give it once")
  has_config = False
  for argument in given:
    flag = argument.partition("=")[0]
    if argument.startswith(tuple(_DASHES)):
      raise UserError(
        f"{flag} does not begin with two hyphens, but with a dash; write --{flag.lstrip(f'-{_DASHES}')}"
      )
    if argument in ("--config", "--workdir") or re.fullmatch(rf"--{_VALUED}=", argument):
      rest = "" if flag == "--config" else ", or leave it out"
      raise UserError(f"{flag} has no value; write {flag}=VALUE{rest}")
    has_config = has_config or flag == "--config"
    if flag.startswith("--config.") and not has_config:
      if configs:
        raise UserError(f"{flag} stands before --config; put --config first")
      raise UserError(f"{flag} without a --config; put one before it, such as {EXAMPLE}")
