"""Fine-tunes BERT to tell DSSP's eight states apart at each residue of a protein (secondary structure).

  python -m discipline_jax.main --config=configs/protein_ss8.py
  python -m discipline_jax.main --config=configs/protein_ss8.py:minilm --config.model.init=scratch \\
    --workdir=runs/ss8_scratch

Needs secondary_structure/CB513_HHblits.csv below --config.data_dir. The 511 chains of CB513 are split at random,
90/5/5, with equal sequences in one part; so scores do not compare with published ones, which train on other proteins
and test on all of CB513 (66 by ProtBert, Elnaggar et al. 2021).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_ss8"
  config.task.long = "windows"
  config.train.learning_rate = 1e-4
  config.eval.every_steps = 50
  config.replicas = 3
  return defaults.use_model(config, model)
