"""Asks what the layers of a frozen network know of a task that it was not trained on.

  python -m discipline_jax.main --config=configs/analyze_probe.py --config.data_dir=DATA

A linear model on the mean hidden state of each sample (if each symbol has a label, on the state of each), layer by
layer, trained on the first 2,000 training samples, in the pre-trained network and from scratch, beside one answer for
all, and a linear model on counts of one to four symbols in a row (or on the symbols around).
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "dna_splice"
  config.analysis.update(measure="probe", samples=2000)
  return defaults.use_model(config, model)
