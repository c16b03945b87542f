"""Fine-tuning speed beside PyTorch and transformers: same model, batch, precision and optimizer, on this machine's CPU.

  pip install -e ".[torch]"
  python benchmarks/finetune_vs_torch.py --checkpoint=DIR [--length=62 --batch_size=32] [--output=FILE.json]

Each side runs in a process of its own, and they take turns, one block of updates at a time, so that a
machine whose speed drifts drifts for both. Prints a table; the ratio is that of neighbouring blocks.
Both sides train with dropout as the checkpoint's config has it, Adam, float32, and all threads.
"""

import argparse
import json
import os
import pathlib
from multiprocessing.connection import Connection

from turns import report, serve, take_turns

NUM_SYMBOLS, NUM_LABELS = 15, 3


def run_jax(checkpoint: str, batch_size: int, length: int, connection: Connection) -> None:
  """Trains a block of updates for every number received, with the package's own training step."""
  os.environ["JAX_PLATFORMS"] = "cpu"
  import dataclasses

  import jax
  import jax.numpy as jnp
  import ml_collections
  import numpy as np

  from discipline_jax import models
  from discipline_jax.models.functional import classifier_function
  from discipline_jax.models.initialise import SubTable, initial_params, word_embeddings
  from discipline_jax.training.optimizers import make_optimizer
  from discipline_jax.training.sharding import make_mesh
  from discipline_jax.training.state import TrainState
  from discipline_jax.training.steps import DeviceData, make_train_step

  directory, head = pathlib.Path(checkpoint), models.Classifier(NUM_LABELS)
  config = models.read_config(directory)
  rng = np.random.default_rng(0)
  sub_table = SubTable.reachable(rng.choice(config.vocab_size, 3 + NUM_SYMBOLS, replace=False))
  params = initial_params("pretrained", config, head, directory, seed=0)
  word_embeddings(params)["weight"] = sub_table.cut(word_embeddings(params)["weight"])
  params = jax.tree.map(lambda leaf: leaf[None], params)
  train = ml_collections.ConfigDict(
    {
      "optimizer": "adam",
      "learning_rate": 1e-5,
      "warmup_steps": 0,
      "weight_decay": 0.0,
      "max_grad_norm": None,
    }
  )
  optimizer = make_optimizer(train, 10**6)
  state = TrainState.create(params, optimizer)
  compact = dataclasses.replace(config, vocab_size=len(sub_table.rows))
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  step = make_train_step(classifier_function(compact, head), optimizer, mesh, state)
  num_samples = 8 * batch_size
  data = DeviceData(
    symbols=jnp.asarray(rng.integers(3, 3 + NUM_SYMBOLS, (num_samples, length)), jnp.uint8),
    segments=None,
    labels=jnp.asarray(rng.integers(0, NUM_LABELS, num_samples), jnp.int32),
    lookup=jnp.asarray(sub_table.lookup)[None],
    seeds=jnp.zeros(1, jnp.int32),
  )

  def block(num_updates: int) -> None:
    nonlocal state
    for _ in range(num_updates):
      batch = jnp.asarray(rng.choice(num_samples, (1, 1, batch_size)), jnp.int32)
      state, metrics = step(state, data, batch, length)
      float(metrics["loss"][0])

  serve(block, connection)


def run_torch(checkpoint: str, batch_size: int, length: int, connection: Connection) -> None:
  """The same with transformers' BertForSequenceClassification."""
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
