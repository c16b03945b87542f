"""How long a checkpoint takes to load, and how much memory that and one training step take, on CPU.

  python benchmarks/loading.py base|large

A checkpoint of bert-base-uncased's or bert-large-uncased's sizes with random weights is written to a temporary directory,
and loaded three times, each time by a process of its own; the last one also makes an update of one sample of 128 tokens.
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
    for load in range(_LOADS):
      step = ["step"] * (load == _LOADS - 1)
      command = [sys.executable, __file__, "measure", folder, *step]
      measured = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1]
      )
      for name in ("load_peak", "step_peak"):
        if name in measured:
          measured[name] = round(measured[name] / num_bytes, 2)
      print(measured, flush=True)


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
  return sum(tensor.nbytes for tensor in tensors.values())


def _measure(folder: str, *, with_step: bool) -> None:
  import jax
  import jax.numpy as jnp
  import ml_collections

  from discipline_jax import models
  from discipline_jax.models.functional import classifier_function
  from discipline_jax.models.initialise import initial_params
  from discipline_jax.training.optimizers import make_optimizer
  from discipline_jax.training.sharding import make_mesh
  from discipline_jax.training.state import TrainState
  from discipline_jax.training.steps import DeviceData, make_train_step

  jax.block_until_ready(jnp.zeros(1))  # the backend is no part of a load
  before = _resident("VmRSS")
  started = time.perf_counter()
  model = models.load(folder)
  jax.block_until_ready(model.embeddings.word_embeddings.weight[...])
  measured = {
    "load_seconds": round(time.perf_counter() - started, 2),
    "load_peak": _resident("VmHWM") - before,
  }
  if with_step:
    del model
    directory, head = pathlib.Path(folder), models.Classifier(2)
    config = models.read_config(directory)
    params = initial_params("pretrained", config, head, directory, seed=0)
    params = jax.tree.map(lambda leaf: leaf[None], params)
    train = ml_collections.ConfigDict(
      {"optimizer": "adam", "learning_rate": 1e-5, "warmup_steps": 0, "weight_decay": 0.0}
    )
    optimizer = make_optimizer(train, 10)
    state = TrainState.create(params, optimizer)
    del params
    mesh = make_mesh(1, 1, 1, jax.devices()[:1])
    step = make_train_step(classifier_function(config, head), optimizer, mesh, state)
    data = DeviceData(
      symbols=jnp.ones((1, _LENGTH), jnp.uint8),
      segments=None,
      labels=jnp.zeros(1, jnp.int32),
      lookup=jnp.arange(2)[None],
      seeds=jnp.zeros(1, jnp.int32),
    )
    jax.block_until_ready(step(state, data, jnp.zeros((1, 1, 1), jnp.int32), _LENGTH))
    measured["step_peak"] = _resident("VmHWM") - before
  print(json.dumps(measured))


def _resident(field: str) -> int:
  """Bytes of the resident set now (VmRSS) or at its peak (VmHWM)."""
  status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
  line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
  return int(line.split()[1]) * 1024


if __name__ == "__main__":
  if sys.argv[1] == "measure":
    _measure(sys.argv[2], with_step="step" in sys.argv[3:])
  else:
    main(sys.argv[1])
