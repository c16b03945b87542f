"""Accelerators for which programs can be compiled on a machine that has none, and what they can do."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.experimental import topologies

from discipline_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Chip:
  """Describes one device: an accelerator as its maker does, or the CPU as `measured` finds it.

  Attributes:
    kind: "tpu", "gpu" or "cpu".
    flops: products and sums in bfloat16 (on a CPU float32) a second, at most.
    memory: bytes of memory.
    bandwidth: bytes of it that are read or written in a second.
    links: bytes a second that it can send to its neighbours.
    source: where these numbers stand.
    used: the share of these speeds that training reaches; half is usual (PaLM, Chowdhery et al. 2022: 46%).
    overlaps: whether it computes while it reads and writes; a CPU's loops and products come one after the other.
  """

  kind: str
  flops: float
  memory: float
  bandwidth: float
  links: float
  source: str
  used: float = 0.5
  overlaps: bool = True


_TPU = "docs.cloud.google.com/tpu/docs, November 2026 (links: half of the bidirectional bandwidth)"
_GPU = "NVIDIA's data sheet (dense products; links: half of NVLink's bandwidth)"
CHIPS = {
  "v5e": Chip("tpu", 197e12, 16e9, 819e9, 200e9, _TPU),
  "v5p": Chip("tpu", 459e12, 95e9, 2765e9, 600e9, _TPU),
  "v6e": Chip("tpu", 918e12, 32e9, 1638e9, 400e9, _TPU),
  "h100": Chip("gpu", 989e12, 80e9, 3350e9, 450e9, _GPU),
  "h200": Chip("gpu", 989e12, 141e9, 4800e9, 450e9, _GPU),
}
_PASSES = 4  # over an array, to measure the bandwidth
# What XLA's compiler asks about a Hopper GPU; both have the same cores. The numbers are those that CUDA reports.
_HOPPER = """
gpu_device_info {{
  threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
  shared_memory_per_block: 49152  shared_memory_per_block_optin: 232448  shared_memory_per_core: 233472
  registers_per_block_limit: 65536  registers_per_core_limit: 65536
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  core_count: 132  fpus_per_core: 128  clock_rate_ghz: 1.98  l2_cache_size: 52428800
  device_memory_size: {memory:.0f}  memory_bandwidth: {bandwidth:.0f}
  cuda_compute_capability {{ major: 9  feature_extension: ACCELERATED_FEATURES }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9  minor: 10 }}
device_description_str: "{name}"
"""


def parse(chips: str) -> tuple[Chip, str]:
  """Returns the chip that a text such as `v5e:2x4` or `h100:8` names, and the rest of the text.

  Raises:
    UserError: no such chip.
  """
  name, colon, rest = chips.partition(":")
  if name not in CHIPS or not colon or not rest:
    raise UserError(
      f"inspect.chips = {chips!r} is no chip and number of chips; set --config.inspect.chips to one of"
      f" {', '.join(CHIPS)}, a colon, and the shape of a TPU slice or the number of GPUs, as in v5e:2x4 or h100:8"
    )
  return CHIPS[name], rest


def devices(chips: str) -> tuple[Chip, Sequence[jax.Device]]:
  """Returns the chip of a text such as `v5e:2x4` or `h100:8`, and the devices, for which programs can be compiled only.

  Raises:
    UserError: no such chip, no such shape, or the compiler for it is not installed.
  """
  chip, shape = parse(chips)
  if chip.kind == "gpu":
    if not shape.isdigit() or not 1 <= int(shape) <= 8:
      raise UserError(
        f"inspect.chips = {chips!r}: give 1 to 8 GPUs of one machine, as in --config.inspect.chips=h100:8"
      )
    name = chips.partition(":")[0]
    target = _HOPPER.format(name=f"NVIDIA {name.upper()}", **vars(chip))
    options = {"platform": "cuda", "topology": f"1x1x{shape}", "target_config": target}
    extra = "gpu_compiler"
  else:
    options, extra = {"platform": "tpu", "topology_name": chips}, "tpu"
  try:
    return chip, topologies.get_topology_desc(**options).devices
  except jax.errors.JaxRuntimeError as error:
    reason = " ".join(str(error).split())[:120]
    raise UserError(
      f"inspect.chips = {chips!r} has a shape that its compiler does not take ({reason}); set --config.inspect.chips to"
      " one that exists, as in v5e:2x4 or h100:8"
    ) from None
  except RuntimeError as error:
    # A compiler is missing; of GPUs JAX says so with a NotImplementedError.
    reason = " ".join(str(error).split())[:120]
    raise UserError(
      f"no compiler for inspect.chips = {chips!r} ({reason}); install it with pip install -e '.[{extra}]'"
    ) from None


def measured(device: jax.Device) -> Chip:
  """Measures, for a few seconds, how fast the CPU multiplies float32, and reads and writes."""
  with jax.default_device(device):
    a, b = jnp.ones((2048, 768)), jnp.ones((3072, 768))
    products = _seconds(jax.jit(lambda a, b: a @ b.T), a, b)
    x = jnp.ones(1 << 26)
    # In a loop, because an update uses its memory again and again, and the first use of new memory is slow.
    add = jax.jit(lambda x: jax.lax.fori_loop(0, _PASSES, lambda _, x: x + 1, x))
    passes = _seconds(add, x)
  flops, bandwidth = 2 * 2048 * 768 * 3072 / products, 2 * _PASSES * x.nbytes / passes
  source = (
    f"{device.device_kind}, measured now: {flops / 1e9:.3g} GFLOP/s and {bandwidth / 1e9:.3g} GB/s"
  )
  return Chip(
    device.platform, flops, math.inf, bandwidth, math.inf, source, used=1.0, overlaps=False
  )


def _seconds(function: Callable, *arguments: jax.Array) -> float:
  """Returns the shortest of ten times."""
  jax.block_until_ready(function(*arguments))
  times = []
  for _ in range(10):
    clock = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    times.append(time.perf_counter() - clock)
  return min(times)
