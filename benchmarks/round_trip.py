"""Saves models with every head, opens them in PyTorch with transformers, and compares what they compute.

  python benchmarks/round_trip.py DIR...

Needs `pip install -e ".[torch]"`. DIR: BERT, RoBERTa or ALBERT in Hugging Face's format. A line for each model and
head: the largest difference of any output, and the weights that transformers missed or did not expect.
"""

import pathlib
import sys
import tempfile
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
import transformers
from jax.tree_util import tree_leaves

from discipline_jax import models
from discipline_jax.models.heads import encoder_of

_HEADS = (
  None,
  models.Classifier(3),
  models.Classifier(1),
  models.TokenClassifier(4),
  models.Span(),
  models.MultipleChoice(),
  models.Pretraining(next_sentence=False),
  models.Pretraining(masked_lm=False),
  models.Pretraining(),
)


def main(directories: list[str]) -> None:
  for directory in directories:
    family = encoder_of(models.load(directory)).config.model_type
    for head in _HEADS:
      # RoBERTa has no second task, and transformers has no ALBERT with it alone.
      needs_pairs = isinstance(head, models.Pretraining) and head.next_sentence
      if needs_pairs and (family == "roberta" or (family == "albert" and not head.masked_lm)):
        continue
      difference, missing, unexpected = _compare(directory, head)
      print(
        f"{pathlib.Path(directory).name:20} {head!s:55} {difference:.1e}"
        f" missing {len(missing)} unexpected {len(unexpected)}"
      )


def _compare(directory: str, head: models.Head | None) -> tuple[float, list[str], list[str]]:
  model: Any = models.load(directory, head)
  config = encoder_of(model).config
  shape = (2, 3, 9) if isinstance(head, models.MultipleChoice) else (2, 9)
  ids = np.random.default_rng(0).integers(config.pad_token_id + 1, config.vocab_size, shape)
  with tempfile.TemporaryDirectory() as folder:
    models.save(model, folder)
    name = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    theirs, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
  with torch.no_grad():
    expected = theirs.eval()(torch.tensor(ids))
  values = [
    value.numpy() for value in expected.to_tuple() if isinstance(value, torch.Tensor)
  ]  # in the order of ours
  ours = model(jnp.asarray(ids))
  if isinstance(head, models.Span):
    ours = (ours[..., 0], ours[..., 1])
  outputs = [np.asarray(leaf) for leaf in tree_leaves(ours)]
  difference = max(float(np.abs(a - b).max()) for a, b in zip(outputs, values, strict=True))
  return difference, sorted(info["missing_keys"]), sorted(info["unexpected_keys"])


if __name__ == "__main__":
  main(sys.argv[1:])
