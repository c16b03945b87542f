"""Answers whether pre-training on text helps on your sequences, in one command and, on two CPU cores, an hour.

  python -m discipline_jax.main --config=compare --config.task.path=FILE
  python -m discipline_jax.main --config=compare:dna_splice --config.data_dir=DATA

FILE has a column `sequence` and a column `label`; docs/own_data.md says how to give anything else. A name after the
colon is a task that the package knows. Three networks of the size of all-MiniLM-L6-v2 (6 layers x 384; another model
with --config.model.checkpoint) are trained: one from its weights, one from scratch, and one from its weights with new
word embeddings. Each tries the rates of `compare.rates` with one seed, and is trained with three seeds at the rate that
is best on validation. Beside them stand what one answer for all samples scores, and a linear model on counts of one to
four symbols in a row (if each symbol has a label, on the symbols around it). Expected: after about a minute a line that
says how long it takes, and at the end a table, and sentences that say which is best, by how much, how certain that is,
and what it does not show.
"""

from discipline_jax import defaults, modes


def get_config(task: str = "custom"):
  config = modes.compare()
  config.task.name = task
  config.task.standardise = True  # of values; classes have no scale
  config.train.grad_accumulation = 1
  config.compare.minutes = 60.0
  return defaults.use_model(config, "minilm")
