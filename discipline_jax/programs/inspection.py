"""Reads from a compiled program what it costs on each device: memory, operations and bytes moved; predicts its time."""

import collections
import dataclasses
import math
import re
from collections.abc import Mapping

import jax
import numpy as np

from discipline_jax.programs.chips import Chip

COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "collective-permute", "all-to-all")


@dataclasses.dataclass(frozen=True)
class Cost:
  """Holds what one update costs each device.

  Attributes:
    peak: bytes of memory at most.
    flops: floating-point operations; NaN if the compiler does not count them.
    accessed: bytes that are read from and written to memory, by the compiler's count; NaN if it has none.
    moved: for each kind of collective, the bytes of each shape that it returns.
    kernels: for each kernel that is called and not compiled by XLA, how often.
  """

  peak: int
  flops: float
  accessed: float
  moved: Mapping[str, collections.Counter[str]]
  kernels: Mapping[str, int]

  @classmethod
  def of(cls, lowered: jax.stages.Lowered, num_devices: int, others: int = 0) -> "Cost":
    """Compiles a program and reads its cost.

    Args:
      lowered: the program.
      num_devices: over how many devices it is spread.
      others: bytes of memory of each device that are taken by what the program does not use.
    """
    compiled = lowered.compile()
    memory, text = compiled.memory_analysis(), compiled.as_text() or ""
    counts = compiled.cost_analysis() or {}
    assert memory is not None
    kernels = collections.Counter(re.findall(r'custom_call_target="([^"]+)"', text))
    # A compiler for GPUs that are not here counts nothing, and none counts a library's products, which are calls.
    flops = counts.get("flops", math.nan)
    if any("cublas" in name or "cudnn" in name for name in kernels):
      flops = (lowered.cost_analysis() or {}).get("flops", math.nan) / num_devices
    own = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return cls(
      own + memory.temp_size_in_bytes + memory.generated_code_size_in_bytes + others,
      flops,
      counts.get("bytes accessed", math.nan),
      moved(text),
      kernels,
    )

  def times(self, parts: int, whole: "Cost") -> "Cost":
    """Returns the cost of so many updates of this one's size in a loop, of which `whole` is the program.

    The compiler counts what stands in a loop only once, but its memory is that of the loop.
    """
    moved = {
      kind: collections.Counter({shape: parts * size for shape, size in shapes.items()})
      for kind, shapes in self.moved.items()
    }
    return Cost(whole.peak, parts * self.flops, parts * self.accessed, moved, whole.kernels)

  @property
  def sent(self) -> float:
    """Bytes that a device sends: an all-reduce passes its result around twice, the others once."""
    return sum(
      (2 if kind == "all-reduce" else 1) * sum(shapes.values())
      for kind, shapes in self.moved.items()
    )

  def seconds(self, chip: Chip) -> float:
    """Predicts the time of an update: of its operations and its memory traffic, plus communication.

    Of the first two it is the longer one where they overlap, else their sum. It is NaN if the compiler does not count
    these.
    """
    operations, traffic = self.flops / chip.flops, self.accessed / chip.bandwidth
    on_chip = max(operations, traffic) if chip.overlaps else operations + traffic
    return (on_chip + self.sent / chip.links) / chip.used


def moved(text: str) -> dict[str, collections.Counter[str]]:
  """Returns, for each kind of collective in compiled HLO, the bytes of each shape that it returns."""
  found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
  # Of the two halves of an asynchronous one, the second returns the result alone.
  line = re.compile(rf"= (.*?) ({'|'.join(COLLECTIVES)})(?:-done)?\(")
  chains = set()
  for match in filter(None, map(line.search, text.splitlines())):
    # A TPU works on some collectives in steps, beside other operations. Each step names the whole and its chain.
    chain = re.search(r"channel_id=(\d+).*chain_id=\"(\d+)\"", match.string)
    if chain is not None:
      if chain.groups() in chains:
        continue
      chains.add(chain.groups())
    for dtype, shape in re.findall(r"(\w+)\[([\d,]*)\]", match[1]):
      number = math.prod(int(size) for size in shape.split(",") if size)
      found[match[2]][f"{dtype}[{shape}]"] += number * _bits(dtype) // 8
  return found


def _bits(dtype: str) -> int:
  number = re.search(r"\d+", dtype)  # f8e5m2 has 8
  return 8 if number is None else int(number[0])  # `pred` has a byte


def state_bytes(state) -> tuple[int, int]:
  """Returns the bytes of a state on one device, and in all without copies; `state` has shapes and shardings."""
  leaves = jax.tree.leaves(state)
  own = sum(
    int(np.prod(leaf.sharding.shard_shape(leaf.shape))) * leaf.dtype.itemsize for leaf in leaves
  )
  return own, sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
