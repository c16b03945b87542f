"""Measures the time to load a checkpoint, and the memory that loading and one training step take, on CPU.

  python benchmarks/loading.py base|large

A checkpoint of bert-base-uncased's or bert-large-uncased's sizes with random weights is written to a temporary
directory. Three processes load it, one after the other, and a fourth one loads it and makes an update of one sample of
128 tokens, with Adam and the whole table of embeddings.
Memory is the peak of the resident set above what it was before the load, as a multiple of the float32 weights.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

_LOADS = 3
_LENGTH = 128
_SIZES = {
  "base": {},
  "large": {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
  },
}


def main(size: str) -> None:
  with tempfile.TemporaryDirectory() as folder:
    num_bytes = _write(pathlib.Path(folder), _SIZES[size])
    print(f"bert-{size}: {num_bytes / 1e6:.0f} MB of float32 weights")
    for what in ["load"] * _LOADS + ["step"]:
      ran = subprocess.run(
        [sys.executable, __file__, what, folder], check=True, stdout=subprocess.PIPE
      )
      seconds, peak = json.loads(ran.stdout.splitlines()[-1])
      print(f"{what}: {seconds:.2f} s, {peak / num_bytes:.2f} x the weights", flush=True)


def _write(folder: pathlib.Path, sizes: dict) -> int:
  import numpy as np
  from flax import nnx
  from flax.traverse_util import flatten_dict
  from safetensors.numpy import save_file

  from discipline_jax import models

  config = models.ModelConfig(**sizes)
  shapes = nnx.to_pure_dict(
    nnx.state(nnx.eval_shape(lambda: models.Encoder(config, rngs=nnx.Rngs(0))))
  )
  rng = np.random.default_rng(0)
  tensors = {
    ".".join(map(str, path)): 0.02 * rng.standard_normal(leaf.shape, np.float32)
    for path, leaf in flatten_dict(shapes).items()
  }
  save_file(tensors, folder / "model.safetensors")
  (folder / "config.json").write_text(json.dumps(config.to_dict()))
  tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "A", "C"]
  tokens += [f"[unused{number}]" for number in range(config.vocab_size - len(tokens))]
  (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
  return sum(tensor.nbytes for tensor in tensors.values())


def _measure(what: str, folder: str) -> None:
  """Prints the seconds and the bytes that `what` takes."""
  import jax
  import jax.numpy as jnp

  from discipline_jax import finetune  # noqa: F401 (importing and starting the backend are not measured)

  jax.block_until_ready(jnp.zeros(1))
  do = {"load": _load, "step": _step}[what]
  before, started = _resident("VmRSS"), time.perf_counter()
  do(pathlib.Path(folder))
  print(json.dumps([time.perf_counter() - started, _resident("VmHWM") - before]))


def _load(folder: pathlib.Path) -> None:
  import jax

  from discipline_jax import models

  model = models.load(str(folder))
  jax.block_until_ready(model.embeddings.word_embeddings.weight[...])


def _step(folder: pathlib.Path) -> None:
  import jax

  from discipline_jax import defaults
  from discipline_jax.programs.finetuning import Finetuning
  from discipline_jax.programs.finetuning_plan import make_plan
  from discipline_jax.training.sharding import make_mesh

  lines = [f"{'AC' * (_LENGTH // 2 - 1)},{number % 2}" for number in range(20)]
  (folder / "table.csv").write_text("\n".join(["sequence,label", *lines]) + "\n")
  config = defaults.finetune()
  config.task.update(name="custom", path=str(folder / "table.csv"))
  config.model.checkpoint = str(folder)
  # With any weight decay the whole table is trained.
  config.train.update(batch_size=1, grad_accumulation=1, steps=10, weight_decay=1e-9)
  program = Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  jax.block_until_ready(program.update(program.start(), 0))


def _resident(field: str) -> int:
  """Returns the bytes of the resident set now (VmRSS) or at its peak (VmHWM)."""
  status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
  line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
  return int(line.split()[1]) * 1024


if __name__ == "__main__":
  if sys.argv[1] in _SIZES:
    main(sys.argv[1])
  else:
    _measure(*sys.argv[1:])
