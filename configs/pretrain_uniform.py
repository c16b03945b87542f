"""Pre-trains on symbols that are all equally likely and in no order: nothing else can be learnt.

  python -m discipline_jax.main --config=configs/pretrain_uniform.py
  python -m discipline_jax.main --config=configs/pretrain_uniform.py:12x768

The corpus is generated, and nothing is downloaded. It has the 930,000 lines of Chiang and Lee (2022), and 10,000 more
that are held out. Expected: the steps 0, 20,000 and 100,000 in runs/pretrain_uniform/steps, to fine-tune from.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(name="uniform", lines=940_000, validation=10_000 / 940_000)
  return config
