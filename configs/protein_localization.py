"""Fine-tunes BERT to tell where in the cell a protein works (ten classes, cut to 512 tokens).

  python -m discipline_jax.main --config=configs/protein_localization.py

Needs protein/localization_{train,dev,test}.fa below --config.data_dir; an error says where to get them. Expected test
accuracy (from arXiv version 1 of the paper): 64.8 with BERT, 58.6 from scratch (--config.model.init=scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_localization"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
