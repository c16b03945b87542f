"""Compiles the updates of a config for chips that need not be here, and says what they cost."""

import copy
import math
import pathlib
from collections.abc import Mapping, Sequence

import jax
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.corpora.prepared import Unprepared
from discipline_jax.corpora.source import chosen_vocabulary
from discipline_jax.files.places import Path, place
from discipline_jax.files.whole_files import write_json
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.programs import chips
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.programs.inspection import Cost, state_bytes
from discipline_jax.programs.pretraining import Pretraining
from discipline_jax.programs.pretraining_plan import check, sizes
from discipline_jax.runs.result import versions
from discipline_jax.training.sharding import describe_mesh, make_mesh


def inspect(config: ConfigDict, workdir: Path, *, dry_run: bool = False) -> None:
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
  given, is_first = config.inspect.chips, jax.process_index() == 0
  chip, devices = (None, jax.devices()) if given is None else chips.devices(given)
  program = program_of(config, devices)
  updates = program.updates
  if is_first:
    print(command_line.format_rows(_head(program, updates)), flush=True)
  if dry_run:
    return
  if chip is None and len(devices) == 1 and devices[0].platform == "cpu":
    chip = chips.measured(devices[0])
  costs = _costs(config, program, devices)
  if not is_first:
    return
  for length, cost in costs.items():
    print(f"\nupdates of {length} tokens: {updates[length]:,}")
    print(command_line.format_rows(_cost(cost, chip)), flush=True)
  if chip is not None:
    seconds = sum(updates[length] * cost.seconds(chip) for length, cost in costs.items())
    hours = seconds / 3600
  if chip is not None and not math.isnan(hours):
    print(
      f"\nprediction for all updates: {hours:.3g} hours, {hours * len(devices):.3g} chip-hours, at"
      f" {100 * chip.used:.0f}% of the speed of {chip.source}; no update was run"
    )
  if config.inspect.output is not None:
    _write(config, program, costs, chip)


def program_of(config: ConfigDict, devices: Sequence[jax.Device]) -> Finetuning | Pretraining:
  """Returns the programs of a config on devices that need not be here; reads no weights, and no corpus.

  Raises:
    UserError: a mistake in the config, or a mesh that does not fit.
  """
  mesh = make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor, devices)
  if "corpus" not in config:
    return Finetuning(make_plan(config), mesh)
  check(config, mesh)
  vocabulary = chosen_vocabulary(config) or make_vocabulary((), sizes(config).vocab_size)
  return Pretraining(config, Unprepared(pathlib.Path(), vocabulary, {}), mesh)


def _costs(config: ConfigDict, program, devices: Sequence[jax.Device]) -> dict[int, Cost]:
  """Compiles the update of each length that occurs, and returns its cost."""
  parts = config.train.grad_accumulation
  part = program
  if parts > 1:  # one of them, because what stands in a loop is counted once
    alone = copy.deepcopy(config)
    alone.train.update(batch_size=config.train.batch_size // parts, grad_accumulation=1)
    part = program_of(alone, devices)
  others = 0  # bytes of what lies on a device beside the arguments of an update
  if isinstance(program, Finetuning):
    others = state_bytes(program.state)[0] - state_bytes(program.state["states"][0])[0]
  found = {}
  lowered, of_part = program.lower(), part.lower()
  for length in program.updates:
    whole = Cost.of(lowered[length], len(devices), others)
    found[length] = whole
    if parts > 1:
      found[length] = Cost.of(of_part[length], len(devices), 0).times(parts, whole)
  return found


def _head(program: Finetuning | Pretraining, updates: Mapping[int, int]) -> dict[str, str]:
  own, total = state_bytes(program.state)
  best = ", the best ones so far" if isinstance(program, Finetuning) else ""
  return {
    "devices": describe_mesh(program.mesh),
    "state": f"{_bytes(own)} on each device, {_bytes(total)} in all (parameters, moments{best})",
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
    "operations": "not counted" if math.isnan(cost.flops) else f"{cost.flops / 1e9:,.0f} GFLOP",
    "memory traffic": "not counted" if math.isnan(cost.accessed) else _bytes(cost.accessed),
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
    seconds = cost.seconds(chip)
    rows["prediction"] = (
      "none, for want of counts" if math.isnan(seconds) else f"{1000 * seconds:.3g} ms an update"
    )
  return rows


def _write(config: ConfigDict, program, costs: Mapping[int, Cost], chip: chips.Chip | None) -> None:
  own, total = state_bytes(program.state)
  write_json(
    place(config.inspect.output),
    {
      "mode": config.mode,
      "chips": config.inspect.chips,
      "mesh": dict(program.mesh.shape),
      "state_bytes": {"device": own, "total": total},
      "updates": {
        str(length): _known(
          vars(cost)
          | {
            "count": program.updates[length],
            "seconds": math.nan if chip is None else cost.seconds(chip),
          }
        )
        for length, cost in costs.items()
      },
      "versions": versions(),
    },
  )


def _known(numbers: dict) -> dict:
  """Returns the numbers with None in place of NaN, which JSON has not."""
  return {name: None if value != value else value for name, value in numbers.items()}


def _bytes(number: float) -> str:
  """Writes bytes with a fitting unit."""
  unit = min(3, int(math.log10(max(1.0, number)) // 3))
  return f"{number / 1000**unit:.3g} {('B', 'kB', 'MB', 'GB')[unit]}"
