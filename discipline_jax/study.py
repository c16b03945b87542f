"""Runs several configs whose results belong side by side: each in a folder of its own, until all are finished."""

import ctypes
import gc
import time
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax import report
from discipline_jax.command_line import no_memory
from discipline_jax.errors import Locked, RunFailed, UserError
from discipline_jax.files.copies import original
from discipline_jax.files.locks import locked
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import read_json, write_json
from discipline_jax.finetune import finetune
from discipline_jax.hosts import fail_alike, meet
from discipline_jax.pretrain import pretrain
from discipline_jax.runs import cells, describe
from discipline_jax.runs.cells import Cell, State, find_state, finished_result
from discipline_jax.runs.overview import check_finished, overview
from discipline_jax.runs.result import envelope
from discipline_jax.runs.study_folder import Failures, check_folder, describe_runs
from discipline_jax.runs.workdir import Workdir

_MODES: dict[str, Callable] = {"pretrain": pretrain, "finetune": finetune}
_SHOWN = 12  # most sentences on a terminal; the report has all of them
_PAUSE = 5.0  # seconds between two looks at what another process works on


def study(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Runs what is missing, pre-training first, and writes a table, `result.json` and a report.

  A run that fails leaves a line in `failed.json`, and the others go on; the next start tries it again. Each run owns
  its folder and the study none, so that runs may be added and removed, and several processes may share a study.

  Args:
    config: see `defaults.study`; a run's `model.checkpoint` may be `NAME@STEP` of another run of the study.
    workdir: where the runs are written, each below its name, and beside them `study.json` and `failed.json`.
    dry_run: only say how far each run is, and how long the others will take.

  Raises:
    UserError: fields of the study itself, or a folder that is the workdir of a single run.
    RunFailed: at the end, if runs failed or wait for others.
  """
  started = time.perf_counter()
  all_cells = cells.plan_cells(config, workdir, _MODES)
  chosen = cells.choose_cells(all_cells, config.study)
  check_folder(workdir)
  failures = Failures(workdir)
  if dry_run:
    print(overview(all_cells, chosen, failures.read()))
    return
  if jax.process_index() == 0:
    describe_runs(config, workdir)
    failures.forget(chosen)
  states = _run_all(all_cells, chosen, failures)
  if jax.process_index() == 0:  # it writes what is read here
    with locked(workdir / ".report.lock"):  # of several processes, the last one sees all results
      results = {
        name: states[name].result if name in chosen else finished_result(cell)
        for name, cell in all_cells.items()
      }
      _show(config, workdir, {name: one for name, one in results.items() if one}, started)
  meet("the study is shown")
  check_finished(states, workdir)


def _run_all(
  all_cells: Mapping[str, Cell], chosen: Mapping[str, Cell], failures: Failures
) -> dict[str, State]:
  """Runs each of the chosen cells until it is finished, has failed, or waits for one that is not run here."""
  states: dict[str, State] = {}
  left, is_told = list(chosen), False
  while left:
    before = len(left)
    for name in list(left):
      cell = chosen[name]
      state = find_state(cell, all_cells, failures.read())
      kind = _agreed(state.kind)
      if kind == "waiting" and _comes(all_cells[str(cell.source)], left, failures.read()):
        continue
      if kind == "running":
        continue
      is_new = kind in ("missing", "stopped")
      if is_new:
        try:
          state = _run(cell)
        except Locked:  # since we looked
          continue
        _free_memory()
      left.remove(name)
      states[name] = state
      place = f"[{len(chosen) - len(left)}/{len(chosen)}]"
      _note(state, name, place, failures, is_new=is_new)
    if len(left) == before:
      if not is_told and jax.process_index() == 0:
        print(
          f"other processes work on {', '.join(left)}; looking again every {_PAUSE:g} s", flush=True
        )
      is_told = True
      time.sleep(_PAUSE)
  return states


def _run(cell: Cell) -> State:
  """Runs a cell to its end, or to a failure that is its own; raises Locked if another process works on it."""
  try:
    _MODES[cell.config.mode](cell.config, cell.workdir, is_cell=True)
    return State("finished", result=read_json(cell.workdir / "result.json"))
  except Locked:
    raise
  except (UserError, RunFailed) as error:
    if not fail_alike(cell.name):
      raise
    return State("failed", cells.reason(cell, error))
  except Exception as error:
    reason = no_memory(error) if isinstance(error, jax.errors.JaxRuntimeError) else None
    if reason is None or not fail_alike(cell.name):
      error.add_note(f"in the run {cell.name} of the study")
      raise
    return State("failed", f"{reason}; change the config of that run, and delete {cell.workdir}")


def _free_memory() -> None:
  """Drops the compiled programs and the arrays of a run: the next one has programs of its own."""
  jax.clear_caches()
  gc.collect()
  libc = ctypes.CDLL(None)
  # glibc keeps most of what was freed, and memory would grow with every run; other libraries lack the function.
  if hasattr(libc, "malloc_trim"):
    libc.malloc_trim(0)


def _agreed(kind: str) -> str:
  """Returns what the first process of a pod says, so that all of them do the same."""
  if jax.process_count() == 1:
    return kind
  place = multihost_utils.broadcast_one_to_all(np.int32(cells.KINDS.index(kind)))
  return cells.KINDS[int(place)]


def _comes(source: Cell, left: list[str], failed: Mapping[str, str]) -> bool:
  """Returns whether a pre-training will be finished, or have failed, if one only waits."""
  if source.name in failed:
    return False
  return source.name in left or Workdir(source.workdir, source.config).is_locked()


def _note(state: State, name: str, place: str, failures: Failures, *, is_new: bool) -> None:
  """Prints the line about a cell, and keeps why it failed."""
  if jax.process_index() != 0:
    return
  note = original(state.note) if state.result is None else describe.outcome(state.result)
  if state.kind == "finished":
    failures.forget([name])
  elif state.kind in ("failed", "broken"):
    failures.note(name, note)
  words = {"broken": "failed", "finished": "finished" if is_new else "finished before"}
  print(f"{place} {name}: {words.get(state.kind, state.kind)}, {note}", flush=True)


def _show(config: ConfigDict, workdir: Path, results: Mapping[str, dict], started: float) -> None:
  """Writes and shows the results of all finished cells, and the report on them."""
  if not any(result["mode"] == "finetune" for result in results.values()):
    return
  path = workdir / "result.json"
  if not path.exists() or read_json(path)["runs"] != results:
    # else the time of the start that ran them would be lost
    write_json(path, {**envelope(config, time.perf_counter() - started), "runs": results})
  written = report.write(workdir)
  print(f"\n{describe.side_by_side(results)}\n")
  if len(written.sentences) <= _SHOWN:
    print("\n".join(written.sentences), end="\n\n")
  print(f"All runs side by side: {written.page}")
