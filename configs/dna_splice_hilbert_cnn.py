"""Splice junctions with a network made for DNA, Hilbert-CNN (Yin et al. 2018), from scratch: the paper's `specific`.

  python -m discipline_jax.main --config=configs/dna_splice_hilbert_cnn.py

Needs dna/splice.txt below --config.data_dir. Learning rate, batch, and the choice of the best weights on validation are
its authors'.
"""

from discipline_jax import defaults


def get_config():
  config = defaults.finetune()
  config.task.name = "dna_splice"
  config.token_map.kind = "identity"
  config.model.init = "scratch"
  config.model.config.model_type = "hilbert_cnn"
  config.replicas = 6
  config.train.learning_rate = 3e-3
  config.train.batch_size = 300
  config.train.grad_accumulation = 1
  config.train.epochs = 20
  config.eval.every_steps = 10  # an epoch
  return config
