"""Says what a comparison cannot tell, because of what was trained and on what."""

from collections.abc import Mapping

import numpy as np
from ml_collections import ConfigDict

from discipline_jax.comparison.inits import Trained
from discipline_jax.comparison.schedule import cuts, whole_grid
from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.programs.timing import Grid


def limits(
  config: ConfigDict,
  plan: Plan,
  grid: Grid,
  trained: Mapping[str, Trained],
  tried: Mapping[str, Mapping[str, float | None]],
) -> list[str]:
  """Returns what the comparison cannot tell, each to follow `It cannot tell`.

  Args:
    config: see `modes.compare`.
    plan: of its fine-tunings.
    grid: what was trained.
    trained: the inits whose loss was finite at some rate.
    tried: of each init, the validation score at each rate; None where a loss was not finite.
  """
  split = plan.splits[0]
  told = [
    "how samples from elsewhere would do: each seed splits the same table at random"
    if set(plan.features.parts) == {"all"}
    else "how another split would do: all seeds have the given one"
  ]
  if np.array_equal(split["test"], split["validation"]):
    told.append(
      "how good any of them is on samples that chose nothing: there is no test part, so it is the validation part"
    )
  told += _of_table(plan)
  told += [
    f"what would come out without this: {one}" for one in cuts(grid, whole_grid(config, plan))
  ]
  for edge, where in ((min, "lowest"), (max, "highest")):
    inits = [one.init for one in trained.values() if one.rate == edge(config.compare.rates)]
    if inits and len(config.compare.rates) > 1:
      told.append(
        f"whether {'lower' if edge is min else 'higher'} rates are better for {', '.join(inits)}: the {where} of those"
        " tried was the best on validation"
      )
  told += [
    f"what {init} can do: its loss was not finite at {'all' if init not in trained else 'some'} of the rates tried"
    for init, one in tried.items()
    if None in one.values() or init not in trained
  ]
  return told


def _of_table(plan: Plan) -> list[str]:
  """Returns what is not known because of how sequences are read, or of pairs, split."""
  told, features = [], plan.features
  if plan.task.answer.of_positions and features.windows is None:
    longest = int((features.lengths >= plan.max_length).sum())
    if longest:
      symbols = plan.max_length - 2 * plan.task.add_special_tokens
      told.append(
        f"what is behind the first {symbols} symbols: {longest} sequences have so many, or more and are cut there; with"
        " --config.task.long=windows, in another --workdir, all symbols would count"
      )
  is_drawn = set(features.parts) == {"all"}
  if plan.task.pairs and plan.task.alphabet is not None and is_drawn and not plan.task.grouped:
    told.append(
      "how pairs of two new sequences would do: a random split leaves partners of test pairs in training, in other"
      " pairs; task.group_column keeps them apart"
    )
  return told
