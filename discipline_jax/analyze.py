"""Measures what networks have in common on a task, and how they behave before training."""

import csv
import importlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import matplotlib
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.errors import UserError
from discipline_jax.files.copies import local
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_file
from discipline_jax.measures.found import Found
from discipline_jax.measures.networks import (
  DROPOUTS,
  Network,
  Planned,
  plan_networks,
  read_networks,
)
from discipline_jax.measures.similarity import LAYERS
from discipline_jax.report.figures import png, svg
from discipline_jax.runs.result import envelope
from discipline_jax.runs.workdir import Workdir
from discipline_jax.training.sharding import mesh_of

MEASURES = (
  "similarity",
  "attention",
  "isometry",
  "gradients",
  "perturbation",
  "layernorm",
  "probe",
)


def analyze(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
  """Applies `analysis.measure` to `analysis.models`, and writes a table, a figure and result.json.

  Args:
    config: see `modes.analyze`.
    workdir: gets config.json, inputs.json, `MEASURE.csv`, `MEASURE.svg`, `MEASURE.png` and result.json.
    dry_run: only say what would be measured.

  Raises:
    UserError: networks that cannot be compared, or fields out of range.
  """
  started = time.perf_counter()
  _check(config)
  if jax.process_count() > 1:
    raise UserError("mode = analyze runs in one process; start it on one machine")
  run = Workdir(workdir, config)
  result = None if dry_run else run.result()
  if result is None:
    mesh = mesh_of(config)
    planned = plan_networks(config, download=not dry_run)
    if dry_run:
      print(_description(config, planned, run))
      return
    networks = read_networks(config, mesh, planned)
    with run:
      result = run.result() or _measure(config, networks, run, started)
      run.write_result(result)
  print(_show(result, workdir))


def _check(config: ConfigDict) -> None:
  command_line.one_of(
    config,
    {
      "analysis.measure": MEASURES,
      "analysis.dropout": DROPOUTS,
      "analysis.layers": LAYERS,
    },
  )
  command_line.at_least(
    config,
    1,
    (
      "analysis.samples",
      "analysis.batches",
      "analysis.repeats",
      "analysis.tokens",
      "eval.batch_size",
    ),
  )
  command_line.at_least(config, 0, ("analysis.ridge",))
  for scale in config.analysis.scales:
    if not (isinstance(scale, float | int) and scale > 0):
      raise UserError(f"analysis.scales has {scale!r}, which is no deviation above 0; leave it out")


def _description(config: ConfigDict, networks: Sequence[Planned], run: Workdir) -> str:
  plan, analysis = networks[0].plan, config.analysis
  return command_line.format_rows(
    {
      "measure": f"{analysis.measure}, dropout {analysis.dropout}",
      "task": f"{plan.task.name}: {analysis.samples} samples of {analysis.part}",
      **{
        f"network {number}": f"{one.name}, {one.plan.model.config.summary}, token map {one.plan.token_map}"
        for number, one in enumerate(networks, 1)
      },
      "workdir": run.describe(),
    }
  )


def _measure(
  config: ConfigDict, networks: list[Network], run: Workdir, started: float
) -> dict[str, Any]:
  """Measures, writes the table and the figure, and returns the result."""
  name = config.analysis.measure
  measure = importlib.import_module(f"discipline_jax.measures.{name}").measure
  found: Found = (
    measure(config, networks, local(run.path)) if name == "gradients" else measure(config, networks)
  )
  run.claim({})  # not before: networks that cannot be compared must not take the folder
  with whole_file(run.path / f"{name}.csv", text=True) as file:
    writer = csv.DictWriter(file, list(found.rows[0]))
    writer.writeheader()
    writer.writerows(found.rows)
  _draw(found, run.path / name)
  return {
    **envelope(config, time.perf_counter() - started),
    "measure": name,
    "task": networks[0].plan.task.name,
    "models": [one.name for one in networks],
    "networks": [one.config.summary for one in networks],
    "token_maps": [one.plan.token_map for one in networks],
    "dropout": config.analysis.dropout,
    "rows": list(found.rows),
    "summary": [list(row) for row in found.summary],
    "notes": list(found.notes),
    "inputs": run.input_digests(),
  }


def _draw(found: Found, path: Path) -> None:
  """Writes the figure as `PATH.png` and `PATH.svg`, the same bytes for the same numbers."""
  with matplotlib.rc_context({"svg.hashsalt": path.name, "font.size": 9}):
    figure = Figure(figsize=(6.4, 4), dpi=150, layout="constrained")
    found.draw(figure)
    files = {".png": png(figure), ".svg": svg(figure).encode()}
  for ending, content in files.items():
    with whole_file(path.with_suffix(ending)) as file:
      file.write(content)


def _show(result: dict[str, Any], workdir: Path) -> str:
  name = result["measure"]
  notes = "".join(f"\nnote: {note}" for note in result["notes"])
  return (
    f"\n{name} on {result['task']}, dropout {result['dropout']}\n\n"
    f"{command_line.format_columns(result['summary'])}\n{notes}\n\n"
    f"table {workdir / name}.csv, figure {workdir / name}.png"
  )
