"""What the compiler is told beside the program."""

import jax


def compiler_options() -> dict[str, str] | None:
  """On CPU, gives XLA's YNNPACK its reductions but not its products, which are slower than Eigen's.

  The option is experimental, so it is set for the version that it was measured with, 0.10.
  """
  if jax.default_backend() != "cpu" or jax.__version_info__[:2] != (0, 10):
    return None
  return {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
