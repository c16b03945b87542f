"""Measures the spread of what enters each LayerNorm, in a pre-trained network and from scratch.

  python -m discipline_jax.main --config=configs/analyze_layernorm.py --config.data_dir=DATA

The standard deviation over all features of all tokens of 200 proteins, for both LayerNorms of each layer.
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "protein_stability"
  config.analysis.measure = "layernorm"
  return defaults.use_model(config, model)
