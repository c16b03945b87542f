"""A study of seconds, for tests."""

from discipline_jax import defaults
from tests.testdata import tiny, tiny_pretrain


def get_config():
  before = tiny_pretrain.get_config()
  before.corpus.length = (32,)
  before.train.update(steps=4, grad_accumulation=1, phases=(1.0,))
  # Which must come after `before`, though its name comes first.
  after = tiny_pretrain.get_config("checkpoint")
  after.corpus.length = (32,)
  after.train.update(steps=2, grad_accumulation=1, phases=(1.0,))
  after.model.update(checkpoint="before@4", init="pretrained")
  runs = {"after": after, "before": before}
  for name, checkpoint, init in (
    ("from_last", "after", "pretrained"),
    ("scratch", "before@0", "scratch"),
  ):
    run = tiny.get_config("checkpoint")
    run.model.update(checkpoint=checkpoint, init=init)
    run.replicas = 1
    run.train.update(steps=6, grad_accumulation=1)
    run.eval.every_steps = 3
    runs[name] = run
  return defaults.study(runs)
