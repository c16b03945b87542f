"""Scores a task of tags without a network: one tag for all, the most frequent tag of each symbol, and a linear model.

  python benchmarks/position_baselines.py protein_ss3 DATA_DIR --reach=8
  python benchmarks/position_baselines.py dna_introns DATA_DIR --reach=30 --k=3 --output=introns.json

They are the baselines of --config=compare (`programs.position_baselines`), here with any reach and without a model.
Whole sequences are scored, as those of the networks are with task.long=windows.
"""

import argparse
import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from discipline_jax import tasks
from discipline_jax.files.whole_files import whole_file
from discipline_jax.programs.position_baselines import Around, fit_positions
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.splits import Split, make_split


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("task")
  parser.add_argument("data_dir", type=pathlib.Path)
  parser.add_argument("--reach", type=int, default=8)
  parser.add_argument("--k", type=int, default=1)
  parser.add_argument("--output", type=pathlib.Path)
  options = parser.parse_args()
  task = tasks.get(options.task, options.data_dir)
  parts = task.read()
  examples = [one for part in parts.values() for one in part]
  split = _split({part: len(own) for part, own in parts.items()}, examples)
  symbols = _padded([_codes(one, task.alphabet) for one in examples])
  labels = _padded([one.label for one in examples])
  around = Around(options.reach, options.k)
  fitted = fit_positions(task.answer, symbols, labels, split, len(task.alphabet.symbols), around)
  found = {
    name: {
      part: _score(task, predicted, labels[split[part]])
      for part, predicted in one.predicted.items()
    }
    for name, one in fitted.items()
  }
  for name, scores in found.items():
    for part, own in scores.items():
      numbers = ", ".join(
        f"{key} {own[key]:.1f}" for key in own if key not in ("number", "classes")
      )
      print(f"{name:9} {part:11} {own['number']:8} positions  {numbers}")
  if options.output:
    with whole_file(options.output, text=True) as file:
      file.write(json.dumps(found, indent=2) + "\n")


def _split(sizes: Mapping[str, int], examples: Sequence[Example]) -> Split:
  """Returns the samples of each part; if there is only one, those of seed 0, which the first replica of a run has."""
  groups = np.array([i if one.group is None else one.group for i, one in enumerate(examples)])
  return make_split(sizes, 0, groups=groups if set(sizes) == {"all"} else None)


def _codes(example: Example, alphabet: Alphabet) -> np.ndarray:
  numbers = {symbol: i for i, symbol in enumerate(alphabet.symbols)}
  numbers |= {alias: numbers[symbol] for alias, symbol in alphabet.aliases.items()}
  return np.array([numbers[letter] for letter in example.sequence])


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
  longest = max(map(len, rows))
  return np.stack([np.pad(one, (0, longest - len(one)), constant_values=-1) for one in rows])


def _score(task: Task, predicted: np.ndarray, labels: np.ndarray) -> dict[str, object]:
  outputs = np.eye(len(task.answer.labels), dtype=np.float32)[np.maximum(predicted, 0)]
  measured = task.answer.measure(
    outputs, {"labels": labels}, np.arange(len(labels), dtype=np.int32)
  )
  return {"number": 0, task.answer.metric: measured.score, **measured.measures}


if __name__ == "__main__":
  main()
