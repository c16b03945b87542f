"""Splice junctions: 60 nucleotides, three classes, as in the paper.

  python -m discipline_jax.main --config=configs/dna_splice.py

Needs dna/splice.txt below --config.data_dir. The paper's test accuracy: 97.5 (BERT) against 95.0 (scratch) in its first
version, 96.4 against 95.3 in its second.
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_splice"
  config.replicas = 6
  return defaults.use_model(config, model)
