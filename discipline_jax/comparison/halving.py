"""Searches an init's best optimizer and learning rate by successive halving."""

import math
from collections.abc import Mapping

from ml_collections import ConfigDict

from discipline_jax.comparison.trials import make_trial, quality, run_trial
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.files.places import Path

Choice = tuple[str, float]  # an optimizer and a rate


def candidate(
  config: ConfigDict, init: str, choice: Choice, steps: int | None = None, every_steps: int = 1
) -> ConfigDict:
  """Returns the fine-tuning of a candidate for so many updates, or None: as the config says."""
  fields = {
    "model.init": init,
    "train.optimizer": choice[0],
    "train.learning_rate": float(choice[1]),
  }
  length = {} if steps is None else {"train.steps": steps}
  return make_trial(
    config, fields | length | {"eval.every_steps": config.eval.every_steps or every_steps}
  )


def rungs_of(config: ConfigDict, num_steps: int) -> list[tuple[int, int]]:
  """Returns the number of updates and of candidates of each rung."""
  factor, count = config.search.factor, config.search.rungs
  candidates = len(config.search.optimizers) * len(config.search.rates)
  steps = [round(num_steps / factor ** (count - 1 - i)) for i in range(count)]
  if steps[0] < 1:
    raise UserError(
      f"search.rungs = {count} with search.factor = {factor} leave less than an update of {num_steps} for the first"
      " rung; lower one of them, or train longer"
    )
  numbers = [candidates]
  while len(numbers) < count:
    numbers.append(math.ceil(numbers[-1] / factor))
  return list(zip(steps, numbers, strict=True))


def count_updates(config: ConfigDict, rungs: list[tuple[int, int]]) -> tuple[int, int]:
  """Returns the updates of the search, all seeds counted, and those of all candidates in full."""
  runs = len(config.search.inits) * config.replicas
  return runs * sum(steps * number for steps, number in rungs), runs * rungs[-1][0] * rungs[0][1]


def search_init(
  config: ConfigDict, init: str, rungs: list[tuple[int, int]], epoch: int, folder: Path
) -> dict:
  """Returns what each rung of an init gave, best first, and the winner of the last one."""
  choices = [(name, rate) for name in config.search.optimizers for rate in config.search.rates]
  told: list[dict] = []
  for steps, number in rungs:
    rows, qualities = {}, {}
    for choice in choices[:number]:
      place = folder / f"{init}_{choice[0]}_{choice[1]:g}_{steps}"
      result = run_trial(candidate(config, init, choice, steps, epoch), place)
      rows[choice] = _row(choice, place, result)
      if result is not None:
        qualities[choice] = quality(place, result)
    choices = sorted(qualities, key=lambda one: qualities[one], reverse=True)
    if not choices:
      raise RunFailed(
        f"the loss of no candidate of {init} was finite after {steps} updates, {folder}; give lower search.rates, in"
        " another --workdir"
      )
    failed = [choice for choice in rows if choice not in qualities]
    told.append({"steps": steps, "runs": [rows[choice] for choice in (*choices, *failed)]})
  return {"rungs": told, "winner": told[-1]["runs"][0]}


def _row(choice: Choice, place: Path, result: Mapping | None) -> dict:
  row = {"optimizer": choice[0], "rate": float(choice[1]), "workdir": place.name}
  if result is None:
    return row | {"validation": None, "test": None}
  parts = {
    part: {name: result[part][name] for name in ("mean", "std", "runs", "intervals", "samples")}
    for part in ("validation", "test")
  }
  return row | parts | {"collapsed": result["collapsed"]}
