"""Fine-tunes BERT to tell whether yeast histone H3 with acetylated lysine 9 occupies a DNA sequence of 500 letters.

  python -m discipline_jax.main --config=configs/dna_h3k9ac.py

Needs dna/H3K9ac.txt below --config.data_dir; it is downloaded if it is missing. The settings are the paper's. Expected
test accuracy (from arXiv version 1 of the paper, full data set): 78.3 with BERT, 72.8 from scratch
(--config.model.init=scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_h3k9ac"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
