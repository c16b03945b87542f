"""How stable a small designed protein is: a value, Spearman's correlation, up to 50 residues.

  python -m discipline_jax.main --config=configs/protein_stability.py

Needs protein/stability_{train,dev,test}.fa below --config.data_dir. The paper's test correlation (first version):
74.5 (BERT) against 65.8 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_stability"
  config.replicas = 6
  return defaults.use_model(config, model)
