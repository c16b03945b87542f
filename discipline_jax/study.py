"""Runs several configs whose results belong side by side: each in a folder of its own, one after the other."""

import json
import pathlib
import time
from collections.abc import Callable

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.files.whole_files import whole_file
from discipline_jax.finetune import finetune
from discipline_jax.pretrain import pretrain
from discipline_jax.runs.describe import side_by_side
from discipline_jax.runs.result import envelope

_MODES: dict[str, Callable] = {"pretrain": pretrain, "finetune": finetune}
_FIGURE = "curves.png"


def study(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Runs what is missing, pre-training first, and writes a table, `result.json` and the curves of validation.

  Each run owns its folder; the study itself owns nothing, so that runs may be added and removed.

  Args:
    config: see `defaults.study`; a run's `model.checkpoint` may be `NAME@STEP` of another run of the study.
    workdir: where the runs are written, each below its name.
    dry_run: only say which runs there are.
  """
  started = time.perf_counter()
  runs = _runs(config, workdir)
  if dry_run:
    for name, run in runs.items():
      print(f"{name}: {run.mode}, {workdir / name}")
    return
  _check_folder(workdir)
  for name, run in runs.items():
    if jax.process_index() == 0:
      print(f"\n== {name}")
    _MODES[run.mode](run, workdir / name)
  if jax.process_index() != 0:  # the first process writes what is read here
    return
  results = {name: _result(workdir / name) for name in runs}
  _draw(workdir, [name for name, run in runs.items() if run.mode == "finetune"])
  is_new = not (workdir / "result.json").exists() or _result(workdir)["runs"] != results
  if is_new:  # else the time of the start that ran them would be lost
    with whole_file(workdir / "result.json", text=True) as file:
      result = {**envelope(config, started), "runs": results, "figure": _FIGURE}
      file.write(json.dumps(result, indent=2) + "\n")
  print(f"\n{side_by_side(results)}\n\n{workdir / _FIGURE}: validation while training")


def _check_folder(workdir: pathlib.Path) -> None:
  """Raises UserError if the folder is the workdir of a run that is no study."""
  for name in ("config.json", "result.json"):
    path = workdir / name
    try:
      content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"mode": "study"}
      is_study = content["mode"] == "study"
    except (ValueError, KeyError, TypeError):
      is_study = False
    if not is_study:
      raise UserError(f"not of a study, {path}; give another --workdir")


def _runs(config: ConfigDict, workdir: pathlib.Path) -> dict[str, ConfigDict]:
  """Returns the runs in an order in which each comes after the run whose weights it starts from."""
  runs = {name: run.copy_and_resolve_references() for name, run in config.runs.items()}
  for name, run in runs.items():
    if run.mode not in _MODES:
      raise UserError(f"runs.{name}.mode = {run.mode!r} is not one of: {', '.join(_MODES)}")
    run.cache_dir = config.cache_dir
  sources = {name: (run.model.checkpoint or "").partition("@") for name, run in runs.items()}
  order: dict[str, ConfigDict] = {}
  while len(order) < len(runs):
    ready = [
      name
      for name in runs
      if name not in order and sources[name][0] not in runs.keys() - order.keys()
    ]
    if not ready:
      raise UserError(
        f"the runs {', '.join(sorted(runs.keys() - order.keys()))} start from each other; set their model.checkpoint"
      )
    order |= {name: runs[name] for name in ready}
  for name, run in order.items():
    source, at, step = sources[name]
    if source in runs:
      run.model.checkpoint = f"{workdir / source}{at}{step}"
  return order


def _result(workdir: pathlib.Path) -> dict:
  return json.loads((workdir / "result.json").read_text(encoding="utf-8"))


def _draw(workdir: pathlib.Path, names: list[str]) -> None:
  """Draws the validation score of each fine-tuning by the number of updates: mean and range of its replicas."""
  from matplotlib.figure import Figure  # takes half a second, and a dry run draws nothing

  figure = Figure(figsize=(6, 4), layout="constrained")
  axes = figure.subplots()
  metric = ""
  for name in names:
    metric = _result(workdir / name)["metric"]
    scores: dict[int, list[float]] = {}
    for line in (workdir / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
      record = json.loads(line)
      if record["split"] == "validation":
        scores.setdefault(record["step"], []).append(record[metric])
    steps = sorted(scores)
    (curve,) = axes.plot(steps, [np.mean(scores[step]) for step in steps], marker=".", label=name)
    low, high = ([limit(scores[step]) for step in steps] for limit in (min, max))
    axes.fill_between(steps, low, high, alpha=0.2, color=curve.get_color(), linewidth=0)
  axes.set(xlabel="updates", ylabel=f"{metric} on validation")
  axes.legend()
  with whole_file(workdir / _FIGURE) as file:
    figure.savefig(file, format="png", dpi=150)
