"""Yeast histone H3 occupancy: 500 nucleotides, two classes, as in the paper.

  python -m discipline_jax.main --config=configs/dna_h3.py

Needs dna/H3.txt below --config.data_dir. The paper's test accuracy on the full set (first version):
83.0 (BERT) against 75.6 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_h3"
  config.replicas = 6
  return defaults.use_model(config, model)
