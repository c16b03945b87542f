"""The kind of device that a program is compiled for.

Modules choose between implementations by it when they are traced. It comes from the mesh of the caller and not from
the machine that traces, because a program can be compiled on one machine for another.
"""

import dataclasses

import jax

_GPU_PLATFORMS = ("cuda", "rocm")  # names that a compile-only client may give to a GPU


@dataclasses.dataclass(frozen=True)
class Platform:
  """A kind of device. It is hashable, so that it can be a static attribute of a module.

  Attributes:
    name: "cpu", "gpu" or "tpu".
    compute_capability: version of a GPU, as JAX names it: "9.0" for NVIDIA's H100, "gfx90a" for AMD's MI250; empty for
      other devices.
  """

  name: str
  compute_capability: str = ""

  @classmethod
  def of(cls, device: jax.Device) -> "Platform":
    """Returns the platform of a device, which may belong to a compile-only topology."""
    if device.platform in ("gpu", *_GPU_PLATFORMS):
      return cls("gpu", str(getattr(device, "compute_capability", "")))
    return cls(device.platform)

  @classmethod
  def default(cls) -> "Platform":
    """Returns the platform of JAX's default device, for callers without a mesh."""
    return cls.of(jax.devices()[0])
