"""Compiles the updates of a config for chips that need not be here, and says what they cost."""

import math
import pathlib
from collections.abc import Mapping

import jax
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.corpora.prepared import Unprepared
from discipline_jax.files.whole_files import write_json
from discipline_jax.models.locate import resolve
from discipline_jax.models.tokenizer import load_vocabulary, make_vocabulary
from discipline_jax.programs import chips
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.programs.inspection import Cost, state_bytes
from discipline_jax.programs.pretraining import Pretraining
from discipline_jax.programs.pretraining_plan import check, sizes
from discipline_jax.runs.result import versions
from discipline_jax.training.sharding import describe_mesh, make_mesh


def inspect(config: ConfigDict, workdir: pathlib.Path, *, dry_run: bool = False) -> None:
  """Prints the memory, the operations and the bytes moved of an update on each device, and predicts its time.

  Nothing is trained, and no workdir is written.

  Args:
    config: of fine-tuning or pre-training.
    workdir: not used.
    dry_run: only say what would be compiled.

  Raises:
    UserError: no such chips, or a mesh that does not fit them.
  """
  del workdir
  given = config.inspect.chips
  chip = None if given is None else chips.parse(given)[0]
  devices = jax.devices() if given is None else chips.devices(given)
  program = _program(config, devices)
  updates = program.updates
  print(command_line.format_rows(_head(program, updates)), flush=True)
  if dry_run:
    return
  if chip is None and len(devices) == 1:
    chip = chips.measured(devices[0])
  costs = {length: Cost.of(lowered.compile()) for length, lowered in program.lower().items()}
  for length, cost in costs.items():
    print(f"\nupdates of {length} tokens: {updates[length]:,}")
    print(command_line.format_rows(_cost(cost, chip)), flush=True)
  if chip is not None:
    seconds = sum(updates[length] * cost.seconds(chip) for length, cost in costs.items())
    hours = seconds / 3600
    print(
      f"\nprediction for all updates: {hours:.3g} hours, {hours * len(devices):.3g} chip-hours, at"
      f" {100 * chip.used:.0f}% of the speed of {chip.source}; no update was run"
    )
  if config.inspect.output is not None:
    _write(config, program, costs, chip)


def _program(config: ConfigDict, devices) -> Finetuning | Pretraining:
  mesh = make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor, devices)
  if "corpus" not in config:
    return Finetuning(make_plan(config), mesh)
  check(config, mesh, 1)
  size = sizes(config).vocab_size
  checkpoint = config.model.checkpoint
  vocabulary = (
    make_vocabulary((), size) if checkpoint is None else load_vocabulary(resolve(checkpoint), size)
  )
  return Pretraining(config, Unprepared(pathlib.Path(), vocabulary, {}), mesh)


def _head(program, updates: Mapping[int, int]) -> dict[str, str]:
  own, total = state_bytes(program.state)
  shared = program.mesh.shape["fsdp"] * program.mesh.shape["tensor"]
  return {
    "devices": describe_mesh(program.mesh),
    "state": f"{_bytes(own)} on each device (parameters, moments), {own / total * shared:.2f} of its share of"
    f" {_bytes(total)}",
    "updates": ", ".join(f"{count:,} of {length} tokens" for length, count in updates.items()),
  }


def _cost(cost: Cost, chip: chips.Chip | None) -> dict[str, str]:
  collectives = {
    kind: f"{_bytes(sum(shapes.values()))}: "
    + ", ".join(f"{shape} {_bytes(size)}" for shape, size in shapes.most_common(3))
    for kind, shapes in cost.moved.items()
  }
  kernels = ", ".join(f"{count} x {name}" for name, count in cost.kernels.items())
  rows = {
    "peak memory": _bytes(cost.peak),
    "operations": f"{cost.flops / 1e9:,.0f} GFLOP",
    "memory traffic": _bytes(cost.accessed),
    **collectives,
    "kernels": kernels[:200] or "none but XLA's",
  }
  if chip is not None:
    if math.isfinite(chip.memory):
      rows["peak memory"] += f" of {_bytes(chip.memory)}"
    if cost.peak > chip.memory:
      rows["peak memory"] += (
        ": does not fit; raise train.grad_accumulation, mesh.fsdp or the number of chips, lower train.batch_size, or"
        " set model.dtype=bfloat16 (in pre-training also remat=True)"
      )
    rows["prediction"] = f"{1000 * cost.seconds(chip):.3g} ms an update"
  return rows


def _write(config: ConfigDict, program, costs: Mapping[int, Cost], chip: chips.Chip | None) -> None:
  own, total = state_bytes(program.state)
  write_json(
    pathlib.Path(config.inspect.output).expanduser(),
    {
      "mode": config.mode,
      "chips": config.inspect.chips,
      "mesh": dict(program.mesh.shape),
      "state_bytes": {"device": own, "total": total},
      "updates": {
        str(length): vars(cost)
        | {
          "count": program.updates[length],
          "seconds": None if chip is None else cost.seconds(chip),
        }
        for length, cost in costs.items()
      },
      "versions": versions(),
    },
  )


def _bytes(number: float) -> str:
  """Writes bytes with a fitting unit."""
  unit = min(3, int(math.log10(max(1.0, number)) // 3))
  return f"{number / 1000**unit:.3g} {('B', 'kB', 'MB', 'GB')[unit]}"
