"""Makes the golden files of this folder with PyTorch and transformers, which the tests themselves do not need.

  pip install -e ".[torch]" && python tests/testdata/make_golden.py [DIR of minilm-l6-uncased/ and bert-tiny-uncased/]

Writes bert_small/ (a random checkpoint as transformers saves it), and for it and each model found in DIR
`<name>.npz`: inputs, outputs, and the losses of 20 Adam steps without dropout. Also small `torch.save` files
of both formats.
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

HERE = pathlib.Path(__file__).parent
NUM_STEPS, NUM_BATCHES, BATCH, NUM_SYMBOLS = 20, 4, 8, 12


def make_small_checkpoint(directory: pathlib.Path) -> None:
  torch.manual_seed(0)
  config = BertConfig(
    vocab_size=300,
    hidden_size=36,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=52,
    max_position_embeddings=70,
    type_vocab_size=2,
    hidden_act="gelu",
    layer_norm_eps=1e-7,
  )
  model = BertModel(config)
  with torch.no_grad():
    for (
      parameter
    ) in model.parameters():  # also biases and LayerNorm, so that none is at its neutral value
      parameter.add_(0.1 * torch.randn_like(parameter))
  model.save_pretrained(directory)
  torch.save(
    model.state_dict(), HERE / "bert_small_legacy.bin", _use_new_zipfile_serialization=False
  )


def make_torch_files() -> None:
  matrix = torch.arange(12.0).reshape(3, 4) / 8
  state = {
    "float": matrix,
    "transposed": matrix.T,
    "tail": matrix[1:],
    "half": torch.tensor([0.5, -2.0]).half(),
    "bfloat16": torch.tensor([1.5, -3.0]).bfloat16(),
    "long": torch.tensor([[1, -(2**40)]]),
    "scalar": torch.tensor(7.0, dtype=torch.float64),
    "empty": torch.zeros(0, 3),
  }
  for form in ("zip", "legacy"):
    torch.save(state, HERE / f"tensors_{form}.bin", _use_new_zipfile_serialization=form == "zip")


def make_golden(directory: pathlib.Path, learning_rate: float, path: pathlib.Path) -> None:
  rng = np.random.default_rng(1)
  torch.manual_seed(1)
  model = BertForSequenceClassification.from_pretrained(
    directory,
    num_labels=3,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    attn_implementation="eager",
  ).eval()
  base, config = model.bert, model.config

  lengths = np.array([40, 1, 17])
  ids = rng.integers(0, config.vocab_size, (3, 40))
  mask = (np.arange(40)[None] < lengths[:, None]).astype(np.int64)
  types = rng.integers(0, 2, (3, 40))
  with torch.no_grad():
    output = base(
      torch.tensor(ids),
      attention_mask=torch.tensor(mask),
      token_type_ids=torch.tensor(types),
      output_hidden_states=True,
      output_attentions=True,
    )
  arrays = {
    "ids": ids.astype(np.int32),
    "attention_mask": mask.astype(np.int32),
    "token_type_ids": types.astype(np.int32),
    "classifier_weight": model.classifier.weight.detach().numpy().copy(),
    "classifier_bias": model.classifier.bias.detach().numpy().copy(),
    "last_hidden_state": output.last_hidden_state.numpy(),
    "pooler_output": output.pooler_output.numpy(),
  }
  if "tiny" in path.name:  # its checkpoint has no pooler, and transformers drew one
    arrays["pooler_weight"] = base.pooler.dense.weight.detach().numpy().copy()
    arrays["pooler_bias"] = base.pooler.dense.bias.detach().numpy().copy()
  if config.hidden_size < 100:
    arrays["hidden_states"] = np.stack([state.numpy() for state in output.hidden_states])
    arrays["attentions"] = np.stack([weights.numpy() for weights in output.attentions])

  # symbols as in tasks.features (0 is padding), each in a random row of the table
  rows = rng.choice(config.vocab_size, NUM_SYMBOLS, replace=False)
  lengths = rng.integers(5, 33, NUM_BATCHES * BATCH)
  symbols = rng.integers(1, NUM_SYMBOLS, (NUM_BATCHES * BATCH, 32))
  symbols[np.arange(32)[None] >= lengths[:, None]] = 0
  labels = rng.integers(0, 3, NUM_BATCHES * BATCH)
  optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
  schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / NUM_STEPS)
  losses = []
  for step in range(NUM_STEPS):
    start = step % NUM_BATCHES * BATCH
    part = slice(start, start + BATCH)
    optimizer.zero_grad()
    loss = model(
      torch.tensor(rows[symbols[part]]),
      attention_mask=torch.tensor(symbols[part] != 0).long(),
      labels=torch.tensor(labels[part]),
    ).loss
    loss.backward()
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
  np.savez_compressed(
    path,
    **arrays,
    rows=rows.astype(np.int32),
    symbols=symbols.astype(np.uint8),
    labels=labels.astype(np.int32),
    learning_rate=np.float32(learning_rate),
    losses=np.array(losses, np.float32),
  )
  print(path.name, "losses", np.round(losses, 4))


if __name__ == "__main__":
  torch.set_num_threads(1)
  make_torch_files()
  make_small_checkpoint(HERE / "bert_small")
  make_golden(HERE / "bert_small", 3e-3, HERE / "bert_small.npz")
  for name in ("minilm-l6-uncased", "bert-tiny-uncased"):
    for folder in sys.argv[1:]:
      make_golden(pathlib.Path(folder) / name, 1e-4, HERE / f"{name}.npz")
