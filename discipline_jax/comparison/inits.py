"""Trains an init of a comparison: at each learning rate with one seed, and at the best one with all seeds."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from discipline_jax.comparison.trials import make_trial, quality, run_trial
from discipline_jax.files.places import Path
from discipline_jax.programs.timing import Grid

_TRIALS = ".trials"


def init_trial(config: ConfigDict, init: str, rate: float, fields: Mapping[str, Any]) -> ConfigDict:
  """Returns a fine-tuning of an init at a rate.

  Args:
    config: see `modes.compare`.
    init, rate: values of `model.init` and `train.learning_rate`.
    fields: further values by dotted name.
  """
  return make_trial(config, {"model.init": init, "train.learning_rate": float(rate), **fields})


@dataclasses.dataclass(frozen=True)
class Trained:
  """An init after training at its best rate.

  Attributes:
    init, rate: which.
    workdir: name of the folder of its run.
    collapsed: whether a seed of it collapsed.
  """

  init: str
  rate: float
  workdir: str
  collapsed: bool


def train_init(
  config: ConfigDict, init: str, grid: Grid, folder: Path
) -> tuple[Trained | None, dict[str, float | None]]:
  """Trains an init at each rate with one seed, and at the best rate with all seeds.

  Returns:
    The trained init, or None if the loss was finite at no rate; and for each rate the validation score of its trial, or
    None if a loss was not finite.
  """
  one_seed = {"replicas": 1, "train.steps": grid.trial_steps, "eval.every_steps": grid.every_steps}
  all_seeds = {
    "replicas": grid.seeds,
    "train.steps": grid.steps,
    "eval.every_steps": grid.every_steps,
  }
  tried: dict[str, float | None] = {}
  qualities = {}
  for rate in config.compare.rates:
    place = folder / _TRIALS / f"{init}_try_{rate:g}"
    result = run_trial(init_trial(config, init, rate, one_seed), place)
    tried[f"{rate:g}"] = None if result is None else result["validation"]["mean"]
    if result is not None:
      qualities[rate] = quality(place, result)
  for rate in sorted(qualities, key=lambda one: qualities[one], reverse=True):
    name = f"{init}_{rate:g}"
    result = run_trial(init_trial(config, init, rate, all_seeds), folder / name)
    if result is not None:
      return Trained(init, rate, name, result["collapsed"]), tried
    tried[f"{rate:g}"] = None
  return None, tried
