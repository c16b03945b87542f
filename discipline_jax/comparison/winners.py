"""Shows the winners of a finished search."""

from collections.abc import Mapping

import numpy as np

from discipline_jax.command_line import format_columns


def show(result: Mapping) -> str:
  """Returns the table of a finished search: the last rung of each init, best first."""
  rows: list[tuple[str, ...]] = [("init", "optimizer", "rate", "validation", "test", "")]
  notes = []
  for init, found in result["inits"].items():
    last = found["rungs"][-1]
    for row in last["runs"]:
      scores = [
        "not finite" if row[part] is None else f"{row[part]['mean']:.1f} ± {row[part]['std']:.1f}"
        for part in ("validation", "test")
      ]
      remark = "winner" if row == found["winner"] else ""
      rows.append((init, row["optimizer"], f"{row['rate']:g}", *scores, remark))
    notes.append(_note(init, found, result["metric"]))
  share = 100 * result["updates"] / result["updates_of_full_grid"]
  cost = f"{result['updates']:,} updates, {share:.0f}% of the full grid"
  return "\n".join(
    [
      f"\n{result['task']} ({result['metric']}), {cost}\n",
      format_columns(rows),
      "",
      *notes,
    ]
  )


def _note(init: str, found: Mapping, metric: str) -> str:
  """Returns a sentence about an init's winner, and how many others its validation interval does not exclude."""
  winner, first = found["winner"], found["rungs"][0]["runs"]
  text = f"{init}: {winner['optimizer']} at {winner['rate']:g}"
  rates = [row["rate"] for row in first if row["optimizer"] == winner["optimizer"]]
  if len(rates) > 1 and winner["rate"] in (min(rates), max(rates)):
    text += f", the {'lowest' if winner['rate'] == min(rates) else 'highest'} rate tried"
  intervals = winner["validation"]["intervals"]
  if None in intervals:
    return f"{text}."
  low, high = np.mean(intervals, axis=0).tolist()
  return (
    f"{text}. A 95% interval of its validation {metric}, for one seed, is {low:.1f} to {high:.1f}"
    f" ({min(winner['validation']['samples'])} samples); candidates within it may be as good."
  )
