"""Compares the Jacobian of an output token by the embeddings with a loop in PyTorch: its values, and its speed.

  pip install -e ".[torch]"
  python benchmarks/isometry_vs_torch.py --checkpoint=DIR [--length=64] [--output=FILE.json]

PyTorch takes the gradient of one output at a time, as the code of the paper's authors does. Each side runs in a process
of its own, and they take turns. Prints the largest difference of two singular values, relative to the largest value,
and a table of seconds for one Jacobian; ratios are of neighbouring blocks.
"""

import argparse
import json
import os
import pathlib
import tempfile
from multiprocessing.connection import Connection

import numpy as np
from turns import report, serve, take_turns


def draw(checkpoint: str, length: int) -> tuple[np.ndarray, int]:
  """Returns random token ids, and the place of the output token."""
  fields = json.loads((pathlib.Path(checkpoint) / "config.json").read_text(encoding="utf-8"))
  rng = np.random.default_rng(0)
  return rng.integers(0, fields["vocab_size"], (1, length)), int(rng.integers(length))


def run_jax(checkpoint: str, length: int, folder: str, connection: Connection) -> None:
  """Computes Jacobians with `analysis.isometry`."""
  os.environ["JAX_PLATFORMS"] = "cpu"
  import jax.numpy as jnp
  from flax import nnx

  from discipline_jax import models
  from discipline_jax.analysis.isometry import jacobian

  ids, token = draw(checkpoint, length)
  encoder = models.load(checkpoint)
  graph, state = nnx.split(encoder)
  x = encoder.embed(jnp.asarray(ids))

  def function(state, x):
    output = nnx.merge(graph, state).run_layers(x, positions=jnp.array([[token]]))
    return output.last_hidden_state[:, 1:]

  def block(number: int) -> None:
    for _ in range(number):
      found = jacobian(function, state, x)
    np.save(pathlib.Path(folder) / "jax.npy", found)

  serve(block, connection)


def run_torch(checkpoint: str, length: int, folder: str, connection: Connection) -> None:
  """Does the same with transformers' model and one backward pass an output."""
  import torch
  from transformers import AutoModel

  torch.set_num_threads(os.cpu_count() or 1)
  ids, token = draw(checkpoint, length)
  model = AutoModel.from_pretrained(checkpoint).eval()
  x = model.embeddings(input_ids=torch.tensor(ids)).detach().requires_grad_()

  def block(number: int) -> None:
    for _ in range(number):
      states = model.encoder(x)[0][0, token]
      rows = [torch.autograd.grad(one, x, retain_graph=True)[0][0] for one in states]
    np.save(pathlib.Path(folder) / "torch.npy", torch.stack(rows).numpy())

  serve(block, connection)


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument("--checkpoint", required=True)
  parser.add_argument("--length", type=int, default=64)
  parser.add_argument("--blocks", type=int, default=3)
  parser.add_argument("--output")
  options = parser.parse_args()
  from discipline_jax.analysis.isometry import singular_values

  with tempfile.TemporaryDirectory() as folder:
    seconds = take_turns(
      {"jax": run_jax, "torch": run_torch},
      (options.checkpoint, options.length, folder),
      updates=1,
      blocks=options.blocks,
    )
    ours, theirs = (
      singular_values(np.load(pathlib.Path(folder) / f"{side}.npy")) for side in ("jax", "torch")
    )
  difference = float(np.abs(ours - theirs).max() / theirs.max())
  print(
    f"singular values: largest difference {difference:.1e} of the largest value, {theirs.max():.4g}"
  )
  found = report(seconds, 1, "Jacobians")
  if options.output:
    content = json.dumps({"difference": difference, **found}, indent=2)
    pathlib.Path(options.output).write_text(f"{content}\n", encoding="utf-8")


if __name__ == "__main__":
  main()
