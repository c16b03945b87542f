"""Fine-tuning speed beside PyTorch and transformers: same model, batch, precision and optimizer, on this machine's CPU.

  pip install -e ".[torch]"
  python benchmarks/finetune_vs_torch.py --checkpoint=DIR [--length=62 --batch_size=32] [--output=FILE.json]

Each side runs in a process of its own, and they take turns, one block of updates at a time, so that a
machine whose speed drifts drifts for both. Prints a table; the ratio is that of neighbouring blocks.
Both sides train with dropout as the checkpoint's config has it, Adam, float32, and all threads.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import time
from multiprocessing.connection import Connection

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
    {"optimizer": "adam", "learning_rate": 1e-5, "warmup_steps": 0, "weight_decay": 0.0}
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

  _serve(block, connection)


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

  _serve(block, connection)


def _serve(block, connection: Connection) -> None:
  block(2)  # compiles, and fills caches
  connection.send(None)
  while num_updates := connection.recv():
    start = time.perf_counter()
    block(num_updates)
    connection.send(time.perf_counter() - start)


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

  context = multiprocessing.get_context("spawn")
  sides = {}
  for name, target in (("jax", run_jax), ("torch", run_torch)):
    ours, theirs = context.Pipe()
    arguments = (flags.checkpoint, flags.batch_size, flags.length, theirs)
    context.Process(target=target, args=arguments, daemon=True).start()
    theirs.close()  # so that a side that dies ends the benchmark, with EOFError
    ours.recv()
    sides[name] = ours
  seconds: dict[str, list[float]] = {name: [] for name in sides}
  for _ in range(flags.blocks):
    for name, connection in sides.items():
      connection.send(flags.updates)
      seconds[name].append(connection.recv() / flags.updates)
  for connection in sides.values():
    connection.send(0)

  rates = {name: flags.batch_size / statistics.median(values) for name, values in seconds.items()}
  ratios = [theirs / ours for ours, theirs in zip(seconds["jax"], seconds["torch"], strict=True)]
  ratio = statistics.median(ratios)
  print(f"{pathlib.Path(flags.checkpoint).name}, {flags.length} tokens, batch {flags.batch_size}")
  for name, rate in rates.items():
    each = ", ".join(f"{value:.2f}" for value in seconds[name])
    print(f"  {name:6} {rate:7.2f} training examples/s   (seconds an update: {each})")
  print(f"  jax / torch {ratio:.2f}   (from {min(ratios):.2f} to {max(ratios):.2f})")
  if flags.output:
    result = {
      **vars(flags),
      "cpus": os.cpu_count(),
      "seconds_an_update": seconds,
      "examples_per_second": rates,
      "ratio": ratio,
      "ratios": ratios,
    }
    pathlib.Path(flags.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main()
