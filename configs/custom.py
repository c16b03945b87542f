"""Fine-tunes BERT on your own sequences: a CSV, TSV, JSON lines or FASTA file with a class or value for each sequence.

  python -m discipline_jax.main --config=configs/custom.py --config.task.path=FILE
  python -m discipline_jax.main --config=configs/custom.py --config.task.path=FILE --config.model.init=scratch \\
    --workdir=runs/custom_scratch

FILE has the columns `sequence` and `label`; in FASTA, a header is `>name label`. The README says how to name other
columns, and what to add for symbols that are words or integers, for values in place of classes, and for given splits.
Expected: each command prints a table of scores, the mean over three runs with different seeds. The difference between
the two tables is what pre-training on text is worth for your data, if it is larger than the intervals in them.
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "custom"
  config.task.standardise = True  # trains on (value - mean) / deviation; no effect on classes
  config.replicas = 3
  return defaults.use_model(config, model)
