"""A generated DNA-like task with a known answer: a first run can use it without any download.

All sequences are random. As in the splice set, two of the three classes have a splice site in the middle: the donor
`GTAAGT` begins there, or the acceptor `TTTCAG` ends there. With probability 1/4, one letter of the site is replaced by
a random letter.
"""

import numpy as np

from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.dna import ALPHABET
from discipline_jax.tasks.examples import Example

_LETTERS = np.array(list("ACGT"))
_LENGTH = 40
# Class -> (motif, index of its first letter in the sequence).
_MOTIFS = {
  "donor": ("GTAAGT", _LENGTH // 2),
  "acceptor": ("TTTCAG", _LENGTH // 2 - 6),
}
_NUM_SAMPLES = 4000


def planted() -> Task:
  """Builds a task of 4,000 sequences of 40 letters in three classes; the sequences are the same in every run."""
  labels = (*_MOTIFS, "neither")
  return Task(
    "dna_planted",
    ALPHABET,
    Class(labels),
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
