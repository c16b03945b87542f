"""Compares the speed of embedding a table with PyTorch and transformers: same model, rows, precision and CPU.

  pip install -e ".[torch]"
  python benchmarks/embed_vs_torch.py --checkpoint=DIR [--length=100 --shortest=100] [--output=FILE.json]

The rows are random proteins of `shortest` to `length` residues. Both sides turn each residue into its token, sort the
rows of a window by length, cut them into batches, compute hidden states, and take the mean over a row's tokens, in
float32 with all threads. PyTorch pads a batch to its longest row, and runs in inference mode with its own attention.
Each side runs in a process of its own. They take turns, one window at a time, so that a change in the machine's speed
meets both. Prints the largest difference of their vectors, and a table; ratios are of neighbouring windows.
"""

import argparse
import functools
import json
import os
import pathlib
import random
import tempfile
from multiprocessing.connection import Connection

import numpy as np
from turns import report, serve, take_turns

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


def proteins(number: int, shortest: int, longest: int) -> list[str]:
  """Returns random sequences."""
  draw = random.Random(0)
  return ["".join(draw.choices(RESIDUES, k=draw.randint(shortest, longest))) for _ in range(number)]


def jax_vectors(checkpoint: str, rows: list[str], batch_size: int):
  """Returns the function that embeds these rows, with the program of `mode = embed`."""
  os.environ["JAX_PLATFORMS"] = "cpu"
  import jax

  from discipline_jax import modes
  from discipline_jax.embedding_sources import find_source
  from discipline_jax.programs.embedding import Embedding
  from discipline_jax.tasks.readers.tables import Row
  from discipline_jax.tasks.streamed import scan
  from discipline_jax.training.sharding import make_mesh

  config = modes.embed()
  config.model.checkpoint = checkpoint
  source = find_source(config, pathlib.Path("none"))
  found = scan([(Row("", row, None, None), row) for row in rows], source.inputs)
  program = Embedding(
    source.network,
    found,
    make_mesh(1, 1, 1, jax.devices()[:1]),
    pooling="mean",
    layer=source.network.config.num_hidden_layers,
    special=1,
    batch_size=batch_size,
  )
  return lambda: program.vectors(source.inputs.encode(rows))


def torch_vectors(checkpoint: str, rows: list[str], batch_size: int):
  """Does the same with transformers' BertModel."""
  import torch
  from transformers import AutoTokenizer, BertModel

  torch.set_num_threads(os.cpu_count() or 1)
  model = BertModel.from_pretrained(checkpoint).eval()
  tokenizer = AutoTokenizer.from_pretrained(checkpoint)
  ids = {letter: tokenizer(letter, add_special_tokens=False)["input_ids"][0] for letter in RESIDUES}
  first, last = tokenizer.cls_token_id, tokenizer.sep_token_id

  def vectors() -> np.ndarray:
    lengths = np.array([len(row) + 2 for row in rows])
    order = np.argsort(lengths, kind="stable")
    result = np.empty((len(rows), model.config.hidden_size), np.float32)
    for start in range(0, len(rows), batch_size):
      places = order[start : start + batch_size]
      inputs = np.zeros((len(places), lengths[places[-1]]), np.int64)
      for line, place in zip(inputs, places, strict=True):
        line[: lengths[place]] = [first, *map(ids.__getitem__, rows[place]), last]
      mask = torch.from_numpy(np.arange(inputs.shape[1])[None] < lengths[places][:, None])
      with torch.inference_mode():
        states = model(torch.from_numpy(inputs), attention_mask=mask.long()).last_hidden_state
        weights = mask[..., None].to(states.dtype)
        result[places] = ((states * weights).sum(1) / weights.sum(1)).numpy()
    return result

  return vectors


SIDES = {"jax": jax_vectors, "torch": torch_vectors}


def run(name: str, flags: argparse.Namespace, connection: Connection) -> None:
  """Embeds a window for every number received, after it has sent the vectors of one."""
  rows = proteins(flags.window, flags.shortest, flags.length)
  vectors = SIDES[name](flags.checkpoint, rows, flags.batch_size)
  np.save(pathlib.Path(flags.folder) / f"{name}.npy", vectors())

  def block(number: int) -> None:
    for _ in range(number):
      vectors()

  serve(block, connection)


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--checkpoint", required=True, help="a BERT's directory in Hugging Face's format"
  )
  parser.add_argument("--length", type=int, default=100, help="residues of the longest row")
  parser.add_argument("--shortest", type=int, help="of the shortest row; default: as the longest")
  parser.add_argument("--batch_size", type=int, default=64)
  parser.add_argument("--window", type=int, default=256, help="rows of a window")
  parser.add_argument("--blocks", type=int, default=9, help="windows a side")
  parser.add_argument("--output", help="also write the figures to this JSON file")
  flags = parser.parse_args()
  flags.shortest = flags.length if flags.shortest is None else flags.shortest

  print(f"{pathlib.Path(flags.checkpoint).name}, {flags.shortest} to {flags.length} residues")
  with tempfile.TemporaryDirectory() as folder:
    flags.folder = folder
    sides = {name: functools.partial(run, name) for name in SIDES}
    seconds = take_turns(sides, (flags,), updates=1, blocks=flags.blocks)
    ours, theirs = (np.load(pathlib.Path(folder) / f"{name}.npy") for name in SIDES)
  difference = float(np.abs(ours - theirs).max())
  print(f"  largest difference of a vector's numbers: {difference:.1e}")
  figures = report(seconds, flags.window, "rows")
  if flags.output:
    result = {**vars(flags), "cpus": os.cpu_count(), "difference": difference, **figures}
    pathlib.Path(flags.output).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
  main()
