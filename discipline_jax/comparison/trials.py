"""Makes and runs the fine-tunings that a comparison or a search consists of, each in a folder of its own."""

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax import defaults, modes
from discipline_jax.command_line import one_of
from discipline_jax.errors import NotFinite, UserError
from discipline_jax.files.growing import each_record
from discipline_jax.files.places import Path
from discipline_jax.finetune import finetune


def check_fields(config: ConfigDict, lists: Mapping[str, str], choices: Mapping[str, Any]) -> None:
  """Raises UserError for lists that make no runs, and for fields of fine-tuning that no run would read.

  Args:
    config: of the mode.
    lists: names of lists in the mode's block, each with the field of fine-tuning that takes their values.
    choices: for some of these fields, the values that they may have.
  """
  default = modes.of_mode(config.mode)
  for name, field in lists.items():
    values = config[config.mode][name]
    part, _, own = field.partition(".")
    if not values:
      raise UserError(f"{config.mode}.{name} is empty; give at least one {field}")
    if len({*values}) < len(values):
      raise UserError(f"{config.mode}.{name} = {values} names one twice; leave it out")
    if config[part][own] != default[part][own]:
      raise UserError(
        f"{field} = {config[part][own]!r} does not apply to mode = {config.mode}; set --config.{config.mode}.{name}"
      )
    for value in values:
      if own == "learning_rate" and not (isinstance(value, float | int) and 0 < value < np.inf):
        raise UserError(
          f"{config.mode}.{name} has {value!r}, which is no rate above 0; leave it out"
        )
      if field in choices:
        one_of(ConfigDict({config.mode: {name: value}}), {f"{config.mode}.{name}": choices[field]})
  if config.model.checkpoint is None and {*config[config.mode].inits} != {"scratch"}:
    raise UserError(
      f"{config.mode}.inits = {config[config.mode].inits} needs --config.model.checkpoint, a directory in Hugging"
      f" Face's format or a hub id; or set --config.{config.mode}.inits=\"('scratch',)\""
    )


def make_trial(config: ConfigDict, fields: Mapping[str, Any]) -> ConfigDict:
  """Returns the config of a fine-tuning: all fields that it shares with `config`, but for the given ones.

  Args:
    config: of the mode.
    fields: values by dotted name.
  """
  trial = defaults.read(config.to_dict())
  with trial.ignore_type():
    trial.update_from_flattened_dict({"mode": "finetune", **fields})
  return trial


def run_trial(config: ConfigDict, workdir: Path) -> dict | None:
  """Runs a fine-tuning unless it is finished, and says a line about it.

  Returns:
    Its result; None if its loss was not finite.
  """
  try:
    finetune(config, workdir, is_cell=True)
  except NotFinite as error:
    logging.warning("%s: %s", workdir.name, error)
    return None
  if jax.process_count() > 1:  # the first process has written what the others read
    multihost_utils.sync_global_devices(str(workdir))
  result = json.loads((workdir / "result.json").read_text(encoding="utf-8"))
  if jax.process_index() == 0:
    score = f"validation {result['metric']} {result['validation']['mean']:.1f}"
    print(f"{workdir.name}: {score}; {result['seconds']:.0f} s", flush=True)
  return result


def quality(workdir: Path, result: Mapping) -> tuple[float, float]:
  """Returns what a finished fine-tuning is ranked by: its mean score on validation, and at equal scores its loss there.

  The higher, the better.
  """
  losses: dict[int, float] = {}
  for record in each_record(workdir / "metrics.jsonl"):
    if record["split"] == "validation":
      replica = record["replica"]
      if record["step"] == result["best_steps"][replica]:
        losses[replica] = record["loss"]
  return result["validation"]["mean"], -float(np.mean(list(losses.values())))
