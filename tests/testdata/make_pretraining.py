"""Makes `pretraining.npz` with PyTorch and transformers, which the tests themselves do not need.

  pip install -e ".[torch]" && python tests/testdata/make_pretraining.py

It holds losses and gradients of the checkpoint `families/bert_relu`: of `BertForPreTraining` on masked pairs of
segments, and of the left-to-right `BertLMHeadModel`.
"""

import pathlib

import numpy as np
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent
CHECKPOINT = FOLDER / "families" / "bert_relu"
LENGTHS = (20, 9, 33, 14)
MASK_ID, FIRST_ORDINARY = 4, 5


def rows(vocab_size: int) -> dict[str, np.ndarray]:
  """Returns rows of two segments with hidden tokens; labels are -100 where nothing is predicted, as in transformers."""
  rng = np.random.default_rng(3)
  length = max(LENGTHS)
  tokens = np.arange(length)[None] < np.array(LENGTHS)[:, None]
  originals = np.where(tokens, rng.integers(FIRST_ORDINARY, vocab_size, tokens.shape), 0)
  boundary = np.array(LENGTHS) // 2
  predicted = tokens & (rng.random(tokens.shape) < 0.25)
  hidden = np.where(predicted & (rng.random(tokens.shape) < 0.8), MASK_ID, originals)
  return {
    "originals": originals,
    "input_ids": hidden,
    "attention_mask": tokens,
    "token_type_ids": tokens & (np.arange(length)[None] >= boundary[:, None]),
    "boundary": boundary,
    "labels": np.where(predicted, originals, -100),
    "next_sentence_label": np.array([0, 1, 1, 0]),
  }


def gradients(model) -> dict[str, np.ndarray]:
  return {
    name: parameter.grad.numpy()
    for name, parameter in model.named_parameters()
    if parameter.grad is not None
  }


def main() -> None:
  torch.set_num_threads(1)
  config = transformers.AutoConfig.from_pretrained(CHECKPOINT, attn_implementation="eager")
  arrays = rows(config.vocab_size)
  batch = {name: torch.tensor(value).long() for name, value in arrays.items()}
  inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
  model = transformers.BertForPreTraining.from_pretrained(CHECKPOINT, config=config).eval()
  output = model(**inputs, labels=batch["labels"], next_sentence_label=batch["next_sentence_label"])
  output.loss.backward()
  golden = {f"both.{name}": value for name, value in gradients(model).items()}

  config.is_decoder = True
  causal = transformers.BertLMHeadModel.from_pretrained(CHECKPOINT, config=config).eval()
  inputs["input_ids"] = batch["originals"]
  labels = torch.where(batch["attention_mask"] == 1, batch["originals"], -100)
  causal_output = causal(**inputs, labels=labels)
  causal_output.loss.backward()
  golden |= {f"causal.{name}": value for name, value in gradients(causal).items()}
  np.savez_compressed(
    FOLDER / "pretraining.npz",
    **{name: value.astype(np.int32) for name, value in arrays.items()},
    loss=output.loss.item(),
    causal_loss=causal_output.loss.item(),
    **golden,
  )


if __name__ == "__main__":
  main()
