"""Yeast histone H3K9ac occupancy: 500 nucleotides, two classes, as in the paper.

  python -m discipline_jax.main --config=configs/dna_h3k9ac.py

Needs dna/H3K9ac.txt below --config.data_dir. The paper's test accuracy on the full set (first version):
78.3 (BERT) against 72.8 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_h3k9ac"
  config.replicas = 6
  return defaults.use_model(config, model)
