"""Measures how far the output of the first token moves if noise is added to all weights.

  python -m discipline_jax.main --config=configs/analyze_perturbation.py --config.data_dir=DATA

On 200 texts of shifted GLUE, noise with deviations of 1e-2, 1e-4, 1e-6 and 1e-8, three draws each, the same for all
networks, without dropout (figures 12 and 13 of the paper). Where rounding to float32 swallows the noise, a note says
so.
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "glue_mrpc"
  config.token_map.kind = "shift"
  config.analysis.measure = "perturbation"
  return defaults.use_model(config, model)
