"""Reads from a compiled program what it costs on each device: memory, operations and bytes moved; predicts its time."""

import collections
import dataclasses
import math
import re
from collections.abc import Mapping

import jax
import numpy as np

from discipline_jax.programs.chips import Chip

_BITS = {"pred": 8, "s4": 4, "u4": 4, "bf16": 16, "f16": 16}  # of other types the name ends in them
COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "collective-permute", "all-to-all")


@dataclasses.dataclass(frozen=True)
class Cost:
  """What one update costs each device.

  Attributes:
    arguments: bytes of the state and the batch.
    peak: bytes of memory at most.
    flops: floating-point operations.
    accessed: bytes that are read from and written to memory, by the compiler's count.
    moved: for each kind of collective, the bytes of each shape that it returns.
    kernels: for each kernel that is called and not compiled by XLA, how often.
  """

  arguments: int
  peak: int
  flops: float
  accessed: float
  moved: Mapping[str, collections.Counter[str]]
  kernels: Mapping[str, int]

  @classmethod
  def of(cls, compiled: jax.stages.Compiled) -> "Cost":
    memory, text = compiled.memory_analysis(), compiled.as_text() or ""
    counts = compiled.cost_analysis()
    assert memory is not None
    assert counts is not None
    own = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return cls(
      memory.argument_size_in_bytes,
      own + memory.temp_size_in_bytes + memory.generated_code_size_in_bytes,
      counts["flops"],
      counts["bytes accessed"],
      moved(text),
      collections.Counter(re.findall(r'custom_call_target="([^"]+)"', text)),
    )

  @property
  def sent(self) -> float:
    """Bytes that a device sends: an all-reduce passes its result around twice, the others once."""
    return sum(
      (2 if kind == "all-reduce" else 1) * sum(shapes.values())
      for kind, shapes in self.moved.items()
    )

  def seconds(self, chip: Chip) -> float:
    """Predicts the time of an update: that of operations or of memory traffic, the longer one, and of what is moved."""
    operations, traffic = self.flops / chip.flops, self.accessed / chip.bandwidth
    return (max(operations, traffic) + self.sent / chip.links) / chip.used


def moved(text: str) -> dict[str, collections.Counter[str]]:
  """Returns, for each kind of collective in compiled HLO, the bytes of each shape that it returns."""
  found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
  # Of the two halves of an asynchronous one, the second returns the result alone.
  line = re.compile(rf"= (.*?) ({'|'.join(COLLECTIVES)})(?:-done)?\(")
  for match in filter(None, map(line.search, text.splitlines())):
    for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", match[1]):
      number = math.prod(int(size) for size in shape.split(",") if size)
      found[match[2]][f"{dtype}[{shape}]"] += number * _bits(dtype) // 8
  return found


def _bits(dtype: str) -> int:
  ending = re.search(r"(\d+)$", dtype)
  return _BITS.get(dtype) or (int(ending[1]) if ending else 8)


def state_bytes(state) -> tuple[int, int]:
  """Returns the bytes of a state on one device, and in all without copies; `state` has shapes and shardings."""
  leaves = jax.tree.leaves(state)
  own = sum(
    int(np.prod(leaf.sharding.shard_shape(leaf.shape))) * leaf.dtype.itemsize for leaf in leaves
  )
  return own, sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
