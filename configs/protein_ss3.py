"""Fine-tunes BERT to tell helix, strand and coil apart at each residue of a protein (secondary structure).

  python -m discipline_jax.main --config=configs/protein_ss3.py
  python -m discipline_jax.main --config=configs/protein_ss3.py:minilm --config.model.init=scratch \\
    --workdir=runs/ss3_scratch

Needs secondary_structure/splits.zip (FLIP's split of NetSurfP-2.0's proteins; downloaded if it is missing) and
secondary_structure/CB513_HHblits.csv below --config.data_dir. Scores are on FLIP's test part (`test`) and on CB513
(`test_cb513`): accuracy over residues, and in result.json macro F1, Matthews' correlation and each state's F1.
Published for CB513: 81, by ProtBert (Elnaggar et al. 2021), which was pre-trained on proteins. Measured with MiniLM and
a sixth of an epoch: 59.7 pre-trained on text, 50.0 from scratch (RESULTS.md).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "protein_ss3"
  config.task.long = "windows"
  config.train.epochs = 3
  config.train.learning_rate = 1e-4
  config.eval.every_steps = 300
  return defaults.use_model(config, model)
