"""A study of seconds, for tests."""

from discipline_jax import defaults
from tests.testdata import tiny, tiny_pretrain


def get_config():
  config = defaults.study()
  config.runs.from_last = tiny.get_config("checkpoint")
  config.runs.from_last.model.checkpoint = "before"
  config.runs.scratch = tiny.get_config("checkpoint")
  config.runs.scratch.model.update(checkpoint="before@0", init="scratch")
  for run in config.runs.values():
    run.train.steps = 6
    run.eval.every_steps = 3
  config.runs.before = tiny_pretrain.get_config()
  config.runs.before.train.steps = 4
  return config
