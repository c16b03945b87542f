"""Makes the golden file `heads.npz` with PyTorch and transformers, which the tests themselves do not need.

  pip install -e ".[torch]" && python tests/testdata/make_heads.py

For the checkpoint bert_small/: inputs, and for a classifier of tokens and one of several labels the weights of the
head, the labels, and the loss and all gradients of one batch, without dropout.
"""

import pathlib

import numpy as np
import torch
from transformers import BertForSequenceClassification, BertForTokenClassification

HERE = pathlib.Path(__file__).parent
ROWS, LENGTH, CLASSES = 8, 24, 5


def load(kind, **settings):
  torch.manual_seed(3)
  model = kind.from_pretrained(
    HERE / "bert_small",
    num_labels=CLASSES,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    attn_implementation="eager",
    **settings,
  ).eval()
  with torch.no_grad():
    model.classifier.weight.mul_(20)
    model.classifier.bias.add_(torch.randn(CLASSES))
  return model


def arrays_of(name: str, model, labels: torch.Tensor, inputs: dict) -> dict[str, np.ndarray]:
  output = model(**inputs, labels=labels)
  output.loss.backward()
  print(name, output.loss.item())
  return {
    f"{name}.weight": model.classifier.weight.detach().numpy().copy(),
    f"{name}.bias": model.classifier.bias.detach().numpy().copy(),
    f"{name}.labels": labels.numpy().astype(np.int32),
    f"{name}.logits": output.logits.detach().numpy(),
    f"{name}.loss": output.loss.detach().numpy(),
    **{
      f"{name}.gradient.{key}": parameter.grad.numpy()
      for key, parameter in model.named_parameters()
      if parameter.grad is not None
    },
  }


def main() -> None:
  rng = np.random.default_rng(4)
  lengths = np.array([LENGTH, 3, 9, 20, 1, 12, 24, 7])
  mask = np.arange(LENGTH)[None] < lengths[:, None]
  ids = np.where(mask, rng.integers(1, 300, mask.shape), 0)
  inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask).long()}
  # A third of the positions, and all of one row, are not scored.
  scored = mask & (rng.random(mask.shape) < 2 / 3)
  scored[5] = False
  tags = np.where(scored, rng.integers(0, CLASSES, mask.shape), -100)
  sets = (rng.random((ROWS, CLASSES)) < 0.3).astype(np.float32)
  sets[2] = 0
  several = {"problem_type": "multi_label_classification"}
  np.savez_compressed(
    HERE / "heads.npz",
    ids=ids.astype(np.int32),
    **arrays_of("tags", load(BertForTokenClassification), torch.tensor(tags), inputs),
    **arrays_of(
      "several", load(BertForSequenceClassification, **several), torch.tensor(sets), inputs
    ),
  )


if __name__ == "__main__":
  torch.set_num_threads(1)
  main()
