"""Gives the sequences of a plan as models without windows read them: each once, and whole."""

import dataclasses

import numpy as np
from jaxtyping import Int32, Num, UInt, UInt8

from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.features import PAD
from discipline_jax.tasks.positions import PositionAnswer
from discipline_jax.tasks.splits import Split
from discipline_jax.tasks.windows import first_rows


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Holds the sequences of a plan, each whole, whether the networks read it in windows or not.

  Attributes:
    symbols: see `Features`. If the answer is about positions, or there are windows, without special tokens: the first
      symbol of a sequence stands at 0.
    segments: see `Features`.
    labels: of each sequence; of positions [sequences, symbols], as `symbols`, see `tasks.positions`.
    groups: number of the group of each sequence.
    splits: numbers of the sequences of each part, for each replica.
  """

  symbols: UInt[np.ndarray, "sequences length"]
  segments: UInt8[np.ndarray, "sequences length"] | None
  labels: Num[np.ndarray, "sequences ..."]
  groups: Int32[np.ndarray, " sequences"]
  splits: list[Split]


def whole_sequences(plan: Plan) -> Sequences:
  """Returns the sequences of a plan; they are cut at the end where its networks read them so."""
  features, answer = plan.features, plan.task.answer
  windows, symbols, labels = features.windows, features.symbols, features.targets["labels"]
  firsts = slice(None) if windows is None else windows.firsts
  own = labels[firsts]
  if answer.of_positions or windows is not None:
    layout = Layout(features.lengths, int(plan.task.add_special_tokens), windows)
    symbols = layout.by_symbol(symbols, PAD)
    if isinstance(answer, PositionAnswer):
      own = layout.by_symbol(labels, answer.unscored)
  return Sequences(
    symbols,
    features.segments,
    own,
    features.groups[firsts],
    [
      {part: _owners(features.sequences(samples)) for part, samples in split.items()}
      for split in plan.splits
    ],
  )


def _owners(sequences: np.ndarray) -> np.ndarray:
  """Returns the number of each sequence once, given that of each of its windows."""
  return sequences[first_rows(sequences)]
