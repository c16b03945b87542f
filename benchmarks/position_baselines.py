"""Scores a task of tags without a network: one tag for all, the most frequent tag of each symbol, and a linear model.

  python benchmarks/position_baselines.py protein_ss3 DATA_DIR --reach=8
  python benchmarks/position_baselines.py dna_introns DATA_DIR --reach=30 --k=3 --output=introns.json

The linear model is logistic regression by stochastic gradient descent (scikit-learn) on which k letters begin at each
of the positions up to `--reach` before and behind a symbol. It is trained on up to a million positions of the training
part. All are scored on whole sequences, as the networks are with task.long=windows.
"""

import argparse
import json
import pathlib
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from discipline_jax import tasks
from discipline_jax.files.whole_files import whole_file
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.splits import make_split
from discipline_jax.tasks.tags import Tags

_MOST = 1_000_000  # positions to train on


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("task")
  parser.add_argument("data_dir", type=pathlib.Path)
  parser.add_argument("--reach", type=int, default=8)
  parser.add_argument("--k", type=int, default=1)
  parser.add_argument("--output", type=pathlib.Path)
  options = parser.parse_args()
  task = tasks.get(options.task, options.data_dir)
  parts = _split(task.read())
  size = len(task.alphabet.symbols)
  codes = {part: [_codes(one, task.alphabet) for one in own] for part, own in parts.items()}
  labels = {part: [one.label for one in own] for part, own in parts.items()}
  truth = np.concatenate(labels["train"])
  symbols = np.concatenate(codes["train"])
  scored = truth >= 0
  table = np.zeros((size, len(task.answer.labels)))
  np.add.at(table, (symbols[scored], truth[scored]), 1)
  linear = _linear(codes["train"], labels["train"], size, options.reach, options.k)
  models = {
    "constant": lambda one: np.full(len(one), table.sum(0).argmax()),
    "symbol": lambda one: table.argmax(1)[one],
    "linear": lambda one: linear.predict(_inputs([one], size, options.reach, options.k)),
  }
  found = {
    name: {
      part: _score(task.answer, [model(one) for one in codes[part]], labels[part])
      for part in parts
      if part != "train"
    }
    for name, model in models.items()
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


def _split(parts: dict[str, Sequence[Example]]) -> dict[str, Sequence[Example]]:
  """Returns the parts; if there is only one, those of seed 0, which the first replica of a run has."""
  if set(parts) != {"all"}:
    return dict(parts)
  whole = parts["all"]
  groups = np.array([i if one.group is None else one.group for i, one in enumerate(whole)])
  split = make_split({"all": len(whole)}, 0, groups=groups)
  return {part: [whole[i] for i in own] for part, own in split.items()}


def _codes(example: Example, alphabet: Alphabet) -> np.ndarray:
  numbers = {symbol: i for i, symbol in enumerate(alphabet.symbols)}
  numbers |= {alias: numbers[symbol] for alias, symbol in alphabet.aliases.items()}
  return np.array([numbers[letter] for letter in example.sequence])


def _inputs(sequences: Sequence[np.ndarray], size: int, reach: int, k: int) -> sparse.csr_matrix:
  """Returns a row for each symbol, with a 1 for each of the k-mers around it that are in the sequence."""
  columns, width = [], size**k
  for one in sequences:
    kmers = np.full(len(one), -1)
    whole = max(0, len(one) - k + 1)
    kmers[:whole] = sum(one[i : i + whole] * size**i for i in range(k))
    padded = np.pad(kmers, reach, constant_values=-1)
    columns.append(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1))
  places = np.concatenate(columns)
  rows, offsets = np.nonzero(places >= 0)
  ones = np.ones(len(rows), np.float32)
  pair = (rows, offsets * width + places[rows, offsets])
  return sparse.csr_matrix((ones, pair), shape=(len(places), (2 * reach + 1) * width))


def _linear(
  codes: Sequence[np.ndarray], labels: Sequence[np.ndarray], size: int, reach: int, k: int
) -> SGDClassifier:
  order, chosen, total = np.random.default_rng(0).permutation(len(codes)), [], 0
  for i in order:
    if total < _MOST:
      chosen.append(i)
      total += len(codes[i])
  truth = np.concatenate([labels[i] for i in chosen])
  inputs = _inputs([codes[i] for i in chosen], size, reach, k)
  scored = truth >= 0
  model = SGDClassifier(loss="log_loss", alpha=1e-6, random_state=0, average=True)
  return model.fit(inputs[scored], truth[scored])


def _score(
  answer: Tags, predicted: Sequence[np.ndarray], labels: Sequence[np.ndarray]
) -> dict[str, object]:
  longest = max(map(len, labels))
  truth = np.stack([np.pad(one, (0, longest - len(one)), constant_values=-1) for one in labels])
  guesses = np.stack([np.pad(one, (0, longest - len(one))) for one in predicted])
  outputs = np.eye(len(answer.labels), dtype=np.float32)[guesses]
  measured = answer.measure(outputs, {"labels": truth}, np.arange(len(truth), dtype=np.int32))
  return {"number": 0, answer.metric: measured.score, **measured.measures}


if __name__ == "__main__":
  main()
