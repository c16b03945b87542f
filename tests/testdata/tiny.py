"""Configures a run of seconds, for tests of whole runs."""

from discipline_jax import defaults


def get_config(sizes: str = "small"):
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.token_map.kind = "random"
  config.model.init = "scratch"
  if sizes == "small":  # else those of model.checkpoint
    config.model.config.update(
      vocab_size=64,
      hidden_size=32,
      num_hidden_layers=1,
      num_attention_heads=2,
      intermediate_size=32,
      max_position_embeddings=64,
    )
  config.replicas = 2
  config.train.update(steps=60, learning_rate=1e-3)
  config.eval.every_steps = 20
  config.checkpoint.every_steps = 14
  return config
