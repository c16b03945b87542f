"""Fine-tunes BERT to tell helix, strand and coil apart at each residue of a protein (secondary structure).

  python -m discipline_jax.main --config=configs/protein_ss3.py
  python -m discipline_jax.main --config=configs/protein_ss3.py:minilm --config.model.init=scratch \\
    --workdir=runs/ss3_scratch

Needs secondary_structure/splits.zip (FLIP's split of NetSurfP-2.0's proteins; downloaded if it is missing) and
secondary_structure/CB513_HHblits.csv below --config.data_dir. Scores are on FLIP's test part (`test`) and on CB513
(`test_cb513`): accuracy over residues, and in result.json macro F1, Matthews' correlation and each state's F1.
Published for CB513: 81, by ProtBert (Elnaggar et al. 2021), which was pre-trained on proteins. Measured after one epoch
(RESULTS.md), test and CB513: MiniLM pre-trained on text 68.1 and 66.8, from scratch 54.3 and 51.8; AntiBERTy, a BERT of
antibodies, 60.8 and 58.0; a linear model on the residues around 62.8 and 62.7.
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
