"""Your own sequences: any CSV, TSV, JSON lines or FASTA file, with a class or a value for each.

  python -m discipline_jax.main --config=configs/custom.py --config.task.path=FILE

FILE has a column `sequence` and a column `label`; other names, symbols that are words or integers, values in place of
classes, and given splits are set in config.task (discipline_jax/defaults.py). Run it again with
--config.model.init=scratch --workdir=runs/custom_scratch: the difference says what pre-training on text is worth here.
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "custom"
  config.replicas = 3
  return defaults.use_model(config, model)
