"""The versions that a result was made with."""

import platform
from importlib import metadata


def versions() -> dict[str, str]:
  """Of Python, this package, and the packages that numbers depend on."""
  names = ("discipline-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
  return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}
