"""Compares where a pre-trained network looks with where the same network looks from scratch, layer by layer.

  python -m discipline_jax.main --config=configs/analyze_attention.py --config.data_dir=DATA

For each of 200 proteins, the heads of a layer are matched so that their attention maps are as near as possible (L1
distance, 0 to 2). The table has the mean over the proteins, and the distance from attention that is the same for all
tokens (figure 5 of the paper).
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "protein_stability"
  config.analysis.measure = "attention"
  config.eval.batch_size = 4
  return defaults.use_model(config, model)
