"""Writes what the best weights of a fine-tuning predict, so that runs can be compared sample by sample.

`predictions.npz` has `seeds` (int64 [replicas]) and for each part P of the data, validation and test:

  P.samples    int32 [replicas, samples]         number of each sample in the task, or of each window; -1 fills rows
  P.outputs    float32 [replicas, samples, ...]  logits or values, not standardised
  P.units      int32 [replicas, units]           what was scored: samples or, if samples vote, groups; by number
  P.labels     [replicas, units, ...]            true class, by number, or true value
  P.predicted  [replicas, units, ...]            predicted class or value

Answers about positions have one more axis. Of outputs it is over the tokens of a sample or window, special ones
counted. Of labels and predictions it is over the symbols of a sequence: that of its first symbol stands at 0, however
the sequence was read; -1 or NaN stands where none is scored, and behind the end. Of several labels, the axis is over
them: 0 or 1, and as predictions the logits.
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
      f"{name}.samples": stacked([one.samples for one in replicas]).astype(np.int32),
      f"{name}.outputs": stacked([one.outputs for one in replicas], 0).astype(np.float32),
      f"{name}.units": np.stack([one.units for one in replicas]).astype(np.int32),
      **{
        f"{name}.{what}": stacked([getattr(one.measured, what) for one in replicas])
        for what in ("labels", "predicted")
      },
    }
  with whole_file(workdir / FILE) as file:
    np.savez(file, **arrays)  # without compression, which saves little on logits


def stacked(arrays: Sequence[np.ndarray], fill: float | None = None) -> np.ndarray:
  """Stacks arrays, which may be of unlike lengths.

  Args:
    arrays: of one number of dimensions, those of each replica.
    fill: what stands where one is shorter; None: -1 or NaN, as where nothing is scored.
  """
  if fill is None:
    fill = np.nan if np.issubdtype(arrays[0].dtype, np.floating) else -1
  shape = np.max([one.shape for one in arrays], axis=0)
  return np.stack(
    [
      np.pad(
        one,
        [(0, size - own) for size, own in zip(shape, one.shape, strict=True)],
        constant_values=fill,
      )
      for one in arrays
    ]
  )
