"""Where in the cell a protein works: ten classes, accuracy, sequences cut to 512 tokens.

  python -m discipline_jax.main --config=configs/protein_localization.py

Needs protein/localization_{train,dev,test}.fa below --config.data_dir. The paper's test accuracy (first version):
64.8 (BERT) against 58.6 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_localization"
  config.replicas = 6
  return defaults.use_model(config, model)
