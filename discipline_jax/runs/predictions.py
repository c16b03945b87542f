"""Writes what the best weights of a fine-tuning predict, so that runs can be compared sample by sample.

`predictions.npz` has `seeds` (int64 [replicas]) and for each part P of the data, validation and test:

  P.samples    int32 [replicas, samples]         number of each sample in the task
  P.outputs    float32 [replicas, samples, ...]  logits or values, not standardised
  P.units      int32 [replicas, units]           what was scored: samples or, if samples vote, groups; by number
  P.labels     [replicas, units]                 true class, by number, or true value
  P.predicted  [replicas, units]                 predicted class or value
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_file
from discipline_jax.tasks.answer import Predictions

FILE = "predictions.npz"


def write_predictions(
  workdir: Path, seeds: Sequence[int], parts: Mapping[str, Sequence[Predictions]]
) -> None:
  """Writes the predictions of a run.

  Args:
    workdir: of the run.
    seeds: of the replicas.
    parts: the predictions of each replica, by the name of the part.
  """
  arrays: dict[str, Any] = {"seeds": np.array(seeds, np.int64)}
  for name, replicas in parts.items():
    arrays |= {
      f"{name}.samples": np.stack([one.samples for one in replicas]).astype(np.int32),
      f"{name}.outputs": np.stack([one.outputs for one in replicas]).astype(np.float32),
      f"{name}.units": np.stack([one.units for one in replicas]).astype(np.int32),
      f"{name}.labels": np.stack([one.measured.labels for one in replicas]),
      f"{name}.predicted": np.stack([one.measured.predicted for one in replicas]),
    }
  with whole_file(workdir / FILE) as file:
    np.savez(file, **arrays)  # without compression, which saves little on logits
