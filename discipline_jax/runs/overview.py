"""Says how far a study is: as a table before it runs, and as an error if runs are not finished after it."""

from collections import Counter
from collections.abc import Mapping, Sequence

from discipline_jax.command_line import format_columns
from discipline_jax.errors import RunFailed
from discipline_jax.files.places import Path
from discipline_jax.runs.cells import KINDS, Cell, State, find_state
from discipline_jax.runs.time_left import time_left

_SHOWN = 8  # names in a message


def overview(
  all_cells: Mapping[str, Cell], chosen: Mapping[str, Cell], failed: Mapping[str, str]
) -> str:
  """Returns a table of how far the chosen cells are, and how long those that are not finished will take.

  Args:
    all_cells: of the study.
    chosen: those that are to be run.
    failed: see `Failures.read`.
  """
  states: dict[str, State] = {}
  for name, cell in all_cells.items():  # what waits for a broken cell comes after it
    states[name] = find_state(cell, all_cells, failed)
    if states[name].kind == "broken":
      failed = {**failed, name: states[name].note}
  rows = [("run", "mode", "state", "")]
  rows += [
    (name, cell.config.mode, states[name].kind, states[name].note) for name, cell in chosen.items()
  ]
  counts = Counter(states[name].kind for name in chosen)
  counted = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
  left = time_left(all_cells, states, chosen)
  return f"{format_columns(rows)}\n\n{len(chosen)} runs: {counted}; time left: {left}"


def check_finished(states: Mapping[str, State], workdir: Path) -> None:
  """Raises RunFailed, with their names, if not all cells of a study are finished.

  Args:
    states: how each cell that was to be run ended.
    workdir: of the study.
  """
  failed = [name for name, state in states.items() if state.kind in ("failed", "broken")]
  waiting = [name for name, state in states.items() if state.kind == "waiting"]
  parts = []
  if failed:
    parts.append(
      f"{len(failed)} of {len(states)} runs failed ({_names(failed)}; {workdir}/failed.json says why)"
    )
  if waiting:
    parts.append(f"{len(waiting)} of {len(states)} wait for a pre-training ({_names(waiting)})")
  if parts:
    raise RunFailed(
      f"{', and '.join(parts)}; the same command tries only these again (first delete the folder of a run whose config"
      " you change)"
    )


def _names(names: Sequence[str]) -> str:
  shown = ", ".join(names[:_SHOWN])
  return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
