"""A generated DNA-like task with a known answer, so that a first run needs nothing to be downloaded.

Every sequence is random. Two of the three classes carry a splice site in the middle, as in the splice set: the
donor `GTAAGT` begins there, or the acceptor `TTTCAG` ends there, with one of the six letters drawn anew in
every fourth of them.
"""

import numpy as np

from discipline_jax.tasks.base import Example, Task
from discipline_jax.tasks.dna import ALPHABET

_LETTERS = np.array(list("ACGT"))
_LENGTH = 40
_MOTIFS = {
  "donor": ("GTAAGT", _LENGTH // 2),
  "acceptor": ("TTTCAG", _LENGTH // 2 - 6),
}  # and where it starts
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
    read=lambda: {"all": _generate(_NUM_SAMPLES)},
  )


def _generate(num_samples: int) -> list[Example]:
  rng = np.random.default_rng(0)
  examples = []
  for i in range(num_samples):
    letters = rng.choice(_LETTERS, _LENGTH)
    label = i % (len(_MOTIFS) + 1)
    if label < len(_MOTIFS):
      text, start = list(_MOTIFS.values())[label]
      motif = np.array(list(text))
      if rng.random() < 0.25:
        motif[rng.integers(len(motif))] = rng.choice(_LETTERS)
      letters[start : start + len(motif)] = motif
    examples.append(Example("".join(letters), label))
  return examples
