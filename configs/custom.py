"""Fine-tunes BERT on your own sequences: a CSV, TSV, JSON lines or FASTA file with a class or a value for each.

  python -m discipline_jax.main --config=configs/custom.py --config.task.path=FILE
  python -m discipline_jax.main --config=configs/custom.py --config.task.path=FILE --config.model.init=scratch \\
    --workdir=runs/custom_scratch

FILE has a column `sequence` and a column `label`. The README says how to name other columns, and how to give symbols
that are words or integers, values in place of classes, and splits. Expected: a table with the scores of three replicas
for each of the two commands; their difference says what pre-training on text is worth for your data.
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "custom"
  config.task.standardise = True  # of values; classes have no scale
  config.replicas = 3
  return defaults.use_model(config, model)
