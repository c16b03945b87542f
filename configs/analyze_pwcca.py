"""Compares what a pre-trained network represents with what the same network represents from scratch.

  python -m discipline_jax.main --config=configs/analyze_pwcca.py --config.data_dir=DATA

The last hidden states of all tokens of 400 proteins (about 18,000 tokens): PWCCA in both directions, SVCCA, linear
CKA with and without bias, Procrustes, and PWCCA as the authors of the paper compute it, each beside the same with the
tokens of one network in random order. --config.analysis.models="('A','B')" compares other networks, for example the
paper's table 1: a text model, a protein model and two networks from scratch. docs/analyses.md says how to read it.
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "protein_stability"
  config.analysis.update(measure="similarity", samples=400)
  return defaults.use_model(config, model)
