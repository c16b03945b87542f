"""Makes the part of `result.json` that all modes share, and summarises the scores of replicas."""

import platform
import time
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax.runs.identity import digest

_PACKAGES = ("discipline-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def envelope(config: ConfigDict, started: float) -> dict[str, Any]:
  """Returns the mode, the run's identity, the time since `started`, the devices and the versions of packages.

  Args:
    config: config of the run.
    started: `time.perf_counter()` when this start of the run began.
  """
  return {
    "mode": config.mode,
    **({} if config.mode == "study" else {"identity": digest(config)}),
    "seconds": time.perf_counter() - started,
    "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    "versions": versions(),
  }


def versions() -> dict[str, str]:
  """Returns the versions of Python, this package, and the packages that numbers depend on."""
  return {
    "python": platform.python_version(),
    **{name: metadata.version(name) for name in _PACKAGES},
  }


def spread(scores: Sequence[float]) -> dict[str, Any]:
  """Returns the mean and the standard deviation of the replicas' scores, and the scores themselves."""
  return {
    "mean": float(np.mean(scores)),
    "std": float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
    "runs": list(scores),
  }
