"""Fine-tunes BERT to tell whether yeast histone H4 occupies a DNA sequence of 500 letters (two classes).

  python -m discipline_jax.main --config=configs/dna_h4.py

Needs dna/H4.txt below --config.data_dir; it is downloaded if it is missing. The settings are the paper's. Expected test
accuracy (from arXiv version 1 of the paper, full data set): 86.2 with BERT, 66.5 from scratch
(--config.model.init=scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_h4"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
