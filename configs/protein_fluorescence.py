"""Fine-tunes BERT to predict how bright a variant of the fluorescent protein avGFP is (a value, 237 residues).

  python -m discipline_jax.main --config=configs/protein_fluorescence.py

Needs protein/fluorescence_{train,dev,test}.fa below --config.data_dir; an error says where to get them. Expected test
Spearman correlation, times 100 (from arXiv version 1 of the paper): 63.7 with BERT, 27.5 from scratch
(--config.model.init=scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_fluorescence"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
