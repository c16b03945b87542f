"""A small BERT from scratch on a generated DNA-like task; nothing is downloaded.

  python -m discipline_jax.main --config=configs/quickstart.py

Two of three classes carry a splice-like motif. Expected: a test accuracy above 90, in less than two minutes on
two CPU cores.
"""

from discipline_jax import defaults


def get_config():
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.token_map.kind = "identity"
  config.model.init = "scratch"
  config.model.config.update(
    vocab_size=32,
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    max_position_embeddings=64,
  )
  config.train.update(epochs=8, learning_rate=1e-3, grad_accumulation=1, warmup_steps=50)
  config.eval.every_steps = 113
  config.checkpoint.every_steps = 113
  return config
