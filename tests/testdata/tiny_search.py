"""A search of seconds on the generated task, for tests."""

from discipline_jax import modes
from tests.testdata import tiny


def get_config():
  small = tiny.get_config()
  config = modes.search()
  config.task.update(name="dna_planted", train_fraction=0.1)
  config.token_map.kind = "random"
  config.replicas = 1
  sizes = small.model.config.items()
  config.model.config.update({name: size for name, size in sizes if size is not None})
  config.search.update(
    inits=("scratch",), optimizers=("adam", "novograd"), rates=(1e-3, 1e-2), rungs=2, factor=2
  )
  config.train.update(steps=8, grad_accumulation=1)
  return config
