"""Several runs whose results belong side by side: each in a folder of its own, one after the other."""

import json
import pathlib
import time
from collections.abc import Callable, Mapping

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.finetune import finetune
from discipline_jax.pretrain import pretrain
from discipline_jax.versions import versions
from discipline_jax.whole_files import whole_file
from discipline_jax.workdir import Workdir

_MODES: dict[str, Callable] = {"pretrain": pretrain, "finetune": finetune}
_FIGURE = "curves.png"


def study(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Runs what is missing, pre-training first, and writes a table, `result.json` and the curves of validation.

  Args:
    config: see `defaults.study`; a run's `model.checkpoint` may be `NAME@STEP` of another run of the study.
    workdir: where the runs are written, each below its name.
    dry_run: only say which runs there are.
  """
  runs = _runs(config, workdir)
  if dry_run:
    for name, run in runs.items():
      print(f"{name}: {run.mode}, {workdir / name}")
    return
  whole = Workdir(workdir, config)
  result = whole.result()
  if result is None:
    started = time.perf_counter()
    with whole:
      whole.claim()
      for name, run in runs.items():
        if jax.process_index() == 0:
          print(f"\n== {name}")
        _MODES[run.mode](run, workdir / name)
      if jax.process_index() != 0:  # the first process writes what is read here
        return
      result = {
        "mode": "study",
        "runs": {name: _result(workdir / name) for name in runs},
        "figure": _FIGURE,
        "seconds": time.perf_counter() - started,  # of this start
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "versions": versions(),
      }
      _draw(workdir, [name for name, run in runs.items() if run.mode == "finetune"])
      whole.write_result(result)
  if jax.process_index() == 0:
    print(f"\n{table(result)}\n\n{workdir / _FIGURE}: validation while training")


def table(result: Mapping) -> str:
  """The fine-tunings of a finished study beside each other."""
  rows = [("run", "validation", "test", "best step")]
  for name, run in result["runs"].items():
    if run["mode"] == "finetune":
      scores = [
        f"{run[part]['mean']:.1f} ± {run[part]['std']:.1f}" for part in ("validation", "test")
      ]
      rows.append((name, *scores, ", ".join(map(str, run["best_steps"]))))
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return "\n".join(
    "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
    for row in rows
  )


def _runs(config: ConfigDict, workdir: pathlib.Path) -> dict[str, ConfigDict]:
  """The runs in an order in which each finds what it begins with."""
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
        f"the runs {', '.join(sorted(runs.keys() - order.keys()))} begin with each other; set their model.checkpoint"
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
  """Each fine-tuning's score on validation by the number of updates: the mean of its replicas, and their range."""
  from matplotlib.figure import Figure  # half a second, and other modes draw nothing

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
