"""A generated DNA-like task with a known answer, so that a first run needs nothing to be downloaded.

Every sequence is random; two of the three classes carry a splice-like motif at a random place, the donor `GTAAGT` or
the acceptor `TTTCAG`, with one of its six letters changed in every fourth of them.
"""

import numpy as np

from discipline_jax.tasks.base import Example, Task
from discipline_jax.tasks.dna import ALPHABET

_LETTERS = np.array(list("ACGT"))
_MOTIFS = {"donor": "GTAAGT", "acceptor": "TTTCAG"}
_LENGTH = 40
_NUM_SAMPLES = 4000


def planted() -> Task:
  """4,000 sequences of 40 letters in three classes, always the same ones."""
  labels = (*_MOTIFS, "neither")
  return Task(
    "dna_planted",
    ALPHABET,
    labels=labels,
    metric="accuracy",
    max_length=_LENGTH + 2,
    read=lambda: _generate(_NUM_SAMPLES),
  )


def _generate(num_samples: int) -> list[Example]:
  rng = np.random.default_rng(0)
  examples = []
  for i in range(num_samples):
    letters = rng.choice(_LETTERS, _LENGTH)
    label = i % (len(_MOTIFS) + 1)
    if label < len(_MOTIFS):
      motif = np.array(list(list(_MOTIFS.values())[label]))
      if rng.random() < 0.25:
        motif[rng.integers(len(motif))] = rng.choice(_LETTERS)
      start = rng.integers(_LENGTH - len(motif) + 1)
      letters[start : start + len(motif)] = motif
    examples.append(Example("".join(letters), label))
  return examples
