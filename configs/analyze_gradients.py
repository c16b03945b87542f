"""Compares the gradients of 100 mini-batches of 32 before training: their cosine, dot product and distance.

  python -m discipline_jax.main --config=configs/analyze_gradients.py --config.data_dir=DATA

On shifted GLUE, for all pairs of mini-batches (figure 11 of the paper). The smallest cosine is what gradient
confusion bounds. The gradients of one network at a time are kept in a file in the workdir.
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "glue_mrpc"
  config.token_map.kind = "shift"
  config.analysis.measure = "gradients"
  return defaults.use_model(config, model)
