"""Turns samples into arrays of symbol numbers: [CLS] symbols [SEP], padded to one length."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from absl import logging
from jaxtyping import Int32, UInt8

from discipline_jax.tasks.base import Alphabet, Example

PAD, CLS, SEP = 0, 1, 2
NUM_SPECIAL = 3


@dataclasses.dataclass(frozen=True)
class Features:
  """A data set as it lies on the device.

  Attributes:
    symbols: 0 for padding, 1 for [CLS], 2 for [SEP], 3 + i for the alphabet's symbol i. Which row of an
      embedding table a symbol has is the token map's business.
    labels: numbers of the classes.
  """

  symbols: UInt8[np.ndarray, "samples length"]
  labels: Int32[np.ndarray, " samples"]


def featurise(examples: Sequence[Example], alphabet: Alphabet, max_length: int) -> Features:
  """Encodes by table look-up; sequences over `max_length` - 2 letters are cut at the end, counted and logged."""
  table = np.full(256, PAD, np.uint8)
  for i, symbol in enumerate(alphabet.symbols):
    table[ord(symbol)] = NUM_SPECIAL + i
  for alias, symbol in alphabet.aliases.items():
    table[ord(alias)] = table[ord(symbol)]
  longest = max(len(example.sequence) for example in examples) + 2
  symbols = np.full((len(examples), min(longest, max_length)), PAD, np.uint8)
  cut = 0
  for row, example in zip(symbols, examples, strict=True):
    codes = table[np.frombuffer(example.sequence.encode("ascii"), np.uint8)][: max_length - 2]
    cut += len(codes) < len(example.sequence)
    row[0] = CLS
    row[1 : len(codes) + 1] = codes
    row[len(codes) + 1] = SEP
  if cut:
    logging.warning(
      "%d of %d sequences are longer than task.max_length = %d tokens and were cut",
      cut,
      len(examples),
      max_length,
    )
  return Features(symbols, np.array([example.label for example in examples], np.int32))
