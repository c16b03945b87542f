"""Shows what a sharded update of pre-training moves between devices, compiled for virtual ones and not run.

  python benchmarks/collectives.py --mesh=1x8x1 [--layers=2 --hidden=768 --heads=12 --rows=256 --length=128]

The mesh is data x fsdp x tensor. Prints, for one device: bytes of the state and of temporary memory, floating-point
operations, and the bytes that each kind of collective returns, with the largest ones.
"""

import argparse
import math
import os
import tempfile


def compile_update(options: argparse.Namespace):
  """Returns the compiled update, and the abstract state."""
  import jax

  from discipline_jax import defaults
  from discipline_jax.corpora.prepare import prepare
  from discipline_jax.programs.pretraining import Pretraining
  from discipline_jax.training.sharding import make_mesh

  data, fsdp, tensor = map(int, options.mesh.split("x"))
  config = defaults.pretrain()
  with tempfile.TemporaryDirectory() as folder:
    config.cache_dir = folder
    config.corpus.update(name="uniform", lines=400, length=(options.length,), validation=0.1)
    config.objective.kind = "mlm"
    config.train.update(batch_size=options.rows, phases=(1.0,))
    config.model.config.update(
      vocab_size=options.vocabulary,
      hidden_size=options.hidden,
      num_hidden_layers=options.layers,
      num_attention_heads=options.heads,
      intermediate_size=4 * options.hidden,
    )
    devices = jax.devices()[: data * fsdp * tensor]
    program = Pretraining(config, prepare(config), make_mesh(data, fsdp, tensor, devices))
    (lowered,) = program.lower().values()
    return lowered.compile(), program.state


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument("--mesh", default="1x8x1")
  for name, value in (
    ("layers", 2),
    ("hidden", 768),
    ("heads", 12),
    ("rows", 256),
    ("length", 128),
    ("vocabulary", 30_522),
  ):
    parser.add_argument(f"--{name}", type=int, default=value)
  options = parser.parse_args()
  os.environ["JAX_PLATFORMS"] = "cpu"
  os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
  compiled, state = compile_update(options)
  from discipline_jax.programs.inspection import moved, state_bytes

  own, total = state_bytes(state)
  count = math.prod(map(int, options.mesh.split("x")))
  memory = compiled.memory_analysis()
  print(f"state {own / 1e6:,.0f} MB, {own / (total / count):.2f} x total / {count}")
  print(f"temporary {memory.temp_size_in_bytes / 1e9:.2f} GB")
  print(f"operations {compiled.cost_analysis()['flops'] / 1e9:,.0f} GFLOP")
  collectives = moved(compiled.as_text())
  everything = sum(sum(one.values()) for one in collectives.values())
  print(f"moved {everything / 1e9:.3f} GB")
  for kind, shapes in collectives.items():
    largest = ", ".join(f"{shape} {size / 1e6:,.0f} MB" for shape, size in shapes.most_common(4))
    print(f"  {kind:18} {sum(shapes.values()) / 1e9:.3f} GB: {largest}")


if __name__ == "__main__":
  main()
