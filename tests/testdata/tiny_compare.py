"""A comparison of seconds on the generated task, for tests; model.checkpoint is still to be set."""

from discipline_jax import modes


def get_config():
  config = modes.compare()
  config.task.update(name="dna_planted", train_fraction=0.1)
  config.token_map.kind = "random"
  config.compare.inits = ("pretrained", "scratch")
  config.compare.rates = (1e-3, 1e-2)
  config.train.update(steps=6, grad_accumulation=1)
  config.eval.every_steps = 3
  return config
