"""Goes on with the pre-training of a model, on a corpus of yours: masks alone, 10,000 updates.

  python -m discipline_jax.main --config=configs/pretrain_further.py --config.corpus.path=DIR
  python -m discipline_jax.main --config=configs/pretrain_further.py:MODEL --config.corpus.path=DIR

MODEL is a directory, a kept step (WORKDIR@STEP) or an id of the hub; by itself bert-base-uncased.
"""

from discipline_jax import defaults


def get_config(model: str = "google-bert/bert-base-uncased"):
  config = defaults.pretrain()
  config.objective.kind = "mlm"
  config.model.update(checkpoint=model, init="pretrained")
  config.corpus.length = (128,)
  config.train.update(
    batch_size=64, steps=10_000, phases=(1.0,), learning_rate=5e-5, warmup_steps=500
  )
  config.eval.update(every_steps=1000, batch_size=64)
  config.checkpoint.keep_steps = (0, 1000)
  return config
