"""Yeast histone H4 occupancy: 500 nucleotides, two classes, as in the paper.

  python -m discipline_jax.main --config=configs/dna_h4.py

Needs dna/H4.txt below --config.data_dir. The paper's test accuracy on the full set (first version):
86.2 (BERT) against 66.5 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_h4"
  config.replicas = 6
  return defaults.use_model(config, model)
