"""Configures a pre-training of seconds in two phases, for tests of whole runs."""

from discipline_jax import defaults


def get_config(sizes: str = "small"):
  config = defaults.pretrain()
  config.corpus.update(name="nesting", lines=400, length=(32, 64), draws=2, validation=0.05)
  config.objective.kind = "mlm"
  if sizes == "small":  # else those of model.checkpoint
    config.model.config.update(
      vocab_size=64,
      hidden_size=32,
      num_hidden_layers=1,
      num_attention_heads=2,
      intermediate_size=32,
      max_position_embeddings=64,
    )
  config.train.update(
    batch_size=16,
    grad_accumulation=2,
    steps=40,
    phases=(0.75, 0.25),
    learning_rate=1e-3,
    warmup_steps=4,
    log_every_steps=5,
  )
  config.eval.update(every_steps=15, batch_size=16, max_examples=40)
  config.checkpoint.update(every_steps=8, keep_steps=(0, 10))
  return config
