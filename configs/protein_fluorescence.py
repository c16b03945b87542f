"""How bright a variant of the fluorescent protein avGFP is: a value, Spearman's correlation, 237 residues.

  python -m discipline_jax.main --config=configs/protein_fluorescence.py

Needs protein/fluorescence_{train,dev,test}.fa below --config.data_dir. The paper's test correlation (first
version): 63.7 (BERT) against 27.5 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_fluorescence"
  config.replicas = 6
  return defaults.use_model(config, model)
