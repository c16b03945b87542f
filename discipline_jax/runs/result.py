"""Makes the part of `result.json` that all modes share, and summarises the scores of replicas."""

import platform
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax.runs.identity import digest
from discipline_jax.tasks.answer import Measured
from discipline_jax.tasks.intervals import certainty

_PACKAGES = ("discipline-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def envelope(config: ConfigDict, seconds: float) -> dict[str, Any]:
  """Returns the mode, the run's identity, its time, the devices and the versions of packages.

  Args:
    config: config of the run.
    seconds: how long the run took.
  """
  return {
    "mode": config.mode,
    **({} if config.mode == "study" else {"identity": digest(config)}),
    "seconds": seconds,
    "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
    "versions": versions(),
  }


def versions() -> dict[str, str]:
  """Returns the versions of Python, this package, and the packages that numbers depend on."""
  return {
    "python": platform.python_version(),
    **{name: metadata.version(name) for name in _PACKAGES},
  }


def scores(measured: Sequence[Measured], metric: str) -> dict[str, Any]:
  """Returns the mean and the standard deviation of the replicas' scores on a part, and lists over the replicas.

  Args:
    measured: the measurements of each replica.
    metric: name of the task's metric.
  """
  runs = [one.score for one in measured]
  certain = [certainty(metric, one.labels, one.predicted) for one in measured]
  balanced = [one.balanced_accuracy for one in certain]
  return {
    "mean": float(np.mean(runs)),
    "std": float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0,
    "runs": runs,
    "samples": [one.samples for one in certain],
    "intervals": [one.interval for one in certain],
    "constant": [one.constant for one in certain],
    **({} if None in balanced else {"balanced_accuracy": balanced}),
    "unbalanced": any(one.unbalanced for one in certain),
    **({"measures": [dict(one.measures) for one in measured]} if measured[0].measures else {}),
  }
