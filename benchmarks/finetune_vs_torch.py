"""Compares the speed of fine-tuning with PyTorch and transformers: same model, batch, precision, optimizer and CPU.

  pip install -e ".[torch]"
  python benchmarks/finetune_vs_torch.py --checkpoint=DIR [--length=62 --batch_size=32] [--output=FILE.json]

Each side runs in a process of its own. They take turns, one block of updates at a time, so that a change in the
machine's speed meets both. Prints a table; ratios are of neighbouring blocks.
Both sides train with the dropout of the checkpoint's config, Adam, float32, and all threads.
"""

import argparse
import json
import os
import pathlib
import random
import string
import tempfile
from multiprocessing.connection import Connection

from turns import report, serve, take_turns

NUM_SYMBOLS, NUM_LABELS = 15, 3


def run_jax(checkpoint: str, batch_size: int, length: int, connection: Connection) -> None:
  """Trains a block of updates for every number received, with the program of a fine-tuning on a generated table."""
  os.environ["JAX_PLATFORMS"] = "cpu"
  import jax

  from discipline_jax import defaults
  from discipline_jax.programs.finetuning import Finetuning
  from discipline_jax.programs.finetuning_plan import make_plan
  from discipline_jax.training.sharding import make_mesh

  with tempfile.TemporaryDirectory() as folder:
    table = pathlib.Path(folder) / "table.csv"
    write_table(table, 20 * batch_size, length - 2)
    config = defaults.finetune()
    config.task.update(name="custom", path=str(table))
    config.model.checkpoint = checkpoint
    config.train.update(batch_size=batch_size, grad_accumulation=1, steps=10**6)
    program = Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  state, step = program.start(), 0

  def block(num_updates: int) -> None:
    nonlocal state, step
    for _ in range(num_updates):
      state, metrics = program.update(state, step)
      float(metrics[0]["loss"][0])
      step += 1

  serve(block, connection)


def write_table(path: pathlib.Path, num_samples: int, length: int) -> None:
  """Writes random sequences of NUM_SYMBOLS letters in NUM_LABELS classes."""
  draw = random.Random(0)
  letters = string.ascii_uppercase[:NUM_SYMBOLS]
  lines = [
    f"{''.join(draw.choices(letters, k=length))},{number % NUM_LABELS}"
    for number in range(num_samples)
  ]
  path.write_text("\n".join(["sequence,label", *lines]) + "\n", encoding="utf-8")


def run_torch(checkpoint: str, batch_size: int, length: int, connection: Connection) -> None:
  """Does the same with transformers' BertForSequenceClassification."""
  import torch
  from transformers import BertForSequenceClassification

  torch.set_num_threads(os.cpu_count() or 1)
  torch.manual_seed(0)
  model = BertForSequenceClassification.from_pretrained(checkpoint, num_labels=NUM_LABELS).train()
  optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
  rows = torch.randperm(model.config.vocab_size)[: 3 + NUM_SYMBOLS]
  num_samples = 8 * batch_size
  symbols = torch.randint(3, 3 + NUM_SYMBOLS, (num_samples, length))
  labels = torch.randint(0, NUM_LABELS, (num_samples,))
  mask = torch.ones(batch_size, length, dtype=torch.long)

  def block(num_updates: int) -> None:
    for _ in range(num_updates):
      batch = torch.randint(0, num_samples, (batch_size,))
      optimizer.zero_grad()
      loss = model(rows[symbols[batch]], attention_mask=mask, labels=labels[batch]).loss
      loss.backward()
      optimizer.step()
      loss.item()

  serve(block, connection)


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--checkpoint", required=True, help="a BERT's directory in Hugging Face's format"
  )
  parser.add_argument("--length", type=int, default=62, help="tokens a row")
  parser.add_argument("--batch_size", type=int, default=32)
  parser.add_argument("--updates", type=int, default=4, help="updates a block")
  parser.add_argument("--blocks", type=int, default=9, help="blocks a side")
  parser.add_argument("--output", help="also write the figures to this JSON file")
  flags = parser.parse_args()

  print(f"{pathlib.Path(flags.checkpoint).name}, {flags.length} tokens, batch {flags.batch_size}")
  seconds = take_turns(
    {"jax": run_jax, "torch": run_torch},
    (flags.checkpoint, flags.batch_size, flags.length),
    updates=flags.updates,
    blocks=flags.blocks,
  )
  figures = report(seconds, flags.batch_size, "training examples")
  if flags.output:
    result = {**vars(flags), "cpus": os.cpu_count(), **figures}
    pathlib.Path(flags.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main()
