"""Any symbol as likely as any other: nothing can be learnt but that.

  python -m discipline_jax.main --config=configs/pretrain_uniform.py
  python -m discipline_jax.main --config=configs/pretrain_uniform.py:12x768

The corpus and its 930,000 lines are those of Chiang and Lee (2022), with 10,000 more held out; nothing is downloaded.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(name="uniform", lines=940_000, validation=10_000 / 940_000)
  return config
