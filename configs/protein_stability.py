"""Fine-tunes BERT to predict how stable a small designed protein is (a value, up to 50 residues).

  python -m discipline_jax.main --config=configs/protein_stability.py

Needs protein/stability_{train,dev,test}.fa below --config.data_dir; an error says where to get them. Expected test
Spearman correlation, times 100 (from arXiv version 1 of the paper): 74.5 with BERT, 65.8 from scratch
(--config.model.init=scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_stability"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
