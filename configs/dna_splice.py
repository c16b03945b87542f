"""Fine-tunes BERT to recognise the kind of splice junction in a DNA sequence of 60 letters (three classes).

  python -m discipline_jax.main --config=configs/dna_splice.py

Needs dna/splice.txt below --config.data_dir; it is downloaded if it is missing. The settings are the paper's. Expected
test accuracy (from arXiv version 1 of the paper): 97.5 with BERT, 95.0 from scratch (--config.model.init=scratch); in
version 2, 96.4 and 95.3.
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "dna_splice"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
