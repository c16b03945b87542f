"""Pre-trains a model further on a corpus of yours: masked tokens alone, 10,000 updates.

  python -m discipline_jax.main --config=configs/pretrain_further.py --config.corpus.path=DIR
  python -m discipline_jax.main --config=pretrain_further:MODEL --config.corpus.path=DIR --workdir=runs/further

MODEL is a directory, a kept step (WORKDIR@STEP) or a hub id; by default bert-base-uncased. Expected: the steps 0, 1,000
and 10,000 in the workdir's steps/, to fine-tune from, and the held-out loss and accuracy in result.json.
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
