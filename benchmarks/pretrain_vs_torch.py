"""Compares the speed of pre-training with PyTorch and transformers: same model, batch, precision, optimizer and CPU.

  pip install -e ".[torch]"
  python benchmarks/pretrain_vs_torch.py [--size=4x256 --vocab_size=30522 --length=128 --batch_size=32]

The masked language model and next sentences (`BertForPreTraining`), AdamW, gradients clipped, dropout 0.1, float32, all
threads. Each side runs in a process of its own, and they take turns. Both mask their rows again for every update,
PyTorch with the recipe of transformers' collator. Both get rows that lie in memory.
"""

import argparse
import json
import os
import pathlib
from multiprocessing.connection import Connection

from turns import report, serve, take_turns

SPECIAL = 5  # ids of special tokens come first
MASK_ID = 4


def fields(size: str, vocab_size: int) -> dict:
  """Returns the sizes of the model under Hugging Face's names."""
  layers, width = map(int, size.split("x"))
  return {
    "vocab_size": vocab_size,
    "num_hidden_layers": layers,
    "hidden_size": width,
    "num_attention_heads": width // 64,
    "intermediate_size": 4 * width,
  }


def rows(vocab_size: int, batch_size: int, length: int) -> dict:
  """Returns full rows of two segments."""
  import numpy as np

  rng = np.random.default_rng(0)
  ids = rng.integers(SPECIAL, vocab_size, (8, batch_size, length))
  boundary = rng.integers(length // 4, length * 3 // 4, (8, batch_size))
  ids[..., 0], ids[..., -1] = 2, 3
  np.put_along_axis(ids, boundary[..., None] - 1, 3, axis=-1)
  return {"ids": ids, "boundary": boundary, "label": rng.integers(0, 2, (8, batch_size))}


def run_jax(
  size: str, vocab_size: int, batch_size: int, length: int, connection: Connection
) -> None:
  """Trains a block of updates for every number received, with the program of a pre-training."""
  os.environ["JAX_PLATFORMS"] = "cpu"
  import jax
  import jax.numpy as jnp
  import numpy as np

  from discipline_jax import defaults
  from discipline_jax.corpora.prepared import Unprepared
  from discipline_jax.corpora.records import record_dtype
  from discipline_jax.models.tokenizer import make_vocabulary
  from discipline_jax.programs.pretraining import Pretraining
  from discipline_jax.training.objectives import RowBatch
  from discipline_jax.training.sharding import make_mesh

  config = defaults.pretrain()
  config.model.config.update(fields(size, vocab_size))
  config.corpus.length = (length,)
  config.train.update(batch_size=batch_size, phases=(1.0,))
  vocabulary = make_vocabulary([f"w{i}" for i in range(vocab_size - SPECIAL)], vocab_size)
  corpus = Unprepared(pathlib.Path(), vocabulary, {})
  program = Pretraining(config, corpus, make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  state, count = program.start(), 0
  data, dtype = rows(vocab_size, batch_size, length), record_dtype(vocab_size)
  batches = [
    RowBatch(
      jnp.asarray(data["ids"][i : i + 1].astype(dtype)),
      jnp.asarray(data["boundary"][i : i + 1].astype(np.int32)),
      jnp.asarray(data["label"][i : i + 1].astype(np.int32)),
    )
    for i in range(8)
  ]

  def block(num_updates: int) -> None:
    nonlocal state, count
    for _ in range(num_updates):
      state, metrics = program.update(state, count, batches[count % 8])
      float(metrics["loss"][0])
      count += 1

  serve(block, connection)


def run_torch(
  size: str, vocab_size: int, batch_size: int, length: int, connection: Connection
) -> None:
  """Does the same with transformers' BertForPreTraining."""
  import torch
  from transformers import BertConfig, BertForPreTraining

  torch.set_num_threads(os.cpu_count() or 1)
  torch.manual_seed(0)
  model = BertForPreTraining(BertConfig(**fields(size, vocab_size))).train()
  decayed = [p for n, p in model.named_parameters() if "LayerNorm" not in n and "bias" not in n]
  others = [p for n, p in model.named_parameters() if "LayerNorm" in n or "bias" in n]
  optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=1e-4
  )
  data = {name: torch.tensor(value) for name, value in rows(vocab_size, batch_size, length).items()}
  mask = torch.ones(batch_size, length, dtype=torch.long)
  count = 0

  def hide(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = (torch.rand(ids.shape) < 0.15) & (ids >= SPECIAL)
    labels = torch.where(chosen, ids, -100)
    fate = torch.rand(ids.shape)
    hidden = torch.where(chosen & (fate < 0.8), MASK_ID, ids)
    drawn = torch.randint(SPECIAL, vocab_size, ids.shape)
    return torch.where(chosen & (fate >= 0.9), drawn, hidden), labels

  def block(num_updates: int) -> None:
    nonlocal count
    for _ in range(num_updates):
      i = count % 8
      hidden, labels = hide(data["ids"][i])
      segments = (torch.arange(length)[None] >= data["boundary"][i][:, None]).long()
      optimizer.zero_grad()
      loss = model(
        hidden,
        attention_mask=mask,
        token_type_ids=segments,
        labels=labels,
        next_sentence_label=data["label"][i],
      ).loss
      loss.backward()
      torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
      optimizer.step()
      loss.item()
      count += 1

  serve(block, connection)


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--size", default="4x256", help="layers x width")
  parser.add_argument("--vocab_size", type=int, default=30522)
  parser.add_argument("--length", type=int, default=128, help="tokens a row")
  parser.add_argument("--batch_size", type=int, default=32)
  parser.add_argument("--updates", type=int, default=2, help="updates a block")
  parser.add_argument("--blocks", type=int, default=7, help="blocks a side")
  parser.add_argument("--output", help="also write the figures to this JSON file")
  flags = parser.parse_args()
  print(
    f"{flags.size}, vocabulary {flags.vocab_size}, {flags.length} tokens, batch {flags.batch_size}"
  )
  seconds = take_turns(
    {"jax": run_jax, "torch": run_torch},
    (flags.size, flags.vocab_size, flags.batch_size, flags.length),
    updates=flags.updates,
    blocks=flags.blocks,
  )
  figures = report(seconds, flags.batch_size * flags.length, "tokens")
  if flags.output:
    result = {**vars(flags), "cpus": os.cpu_count(), **figures}
    pathlib.Path(flags.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main()
