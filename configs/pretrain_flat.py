"""Pre-trains on lines in which each symbol stands twice, in random places: pairs without a hierarchy.

  python -m discipline_jax.main --config=configs/pretrain_flat.py
  python -m discipline_jax.main --config=configs/pretrain_flat.py:12x768

Symbols have the frequencies of Zipf's law, or of the tokens of a text, cut by the tokenizer of a model in DIR:
--config.corpus.path=TEXT --config.corpus.vocabulary=DIR.

The corpus is generated, and nothing is downloaded. It has the 930,000 lines of Chiang and Lee (2022), and 10,000 more
that are held out. Expected: the steps 0, 20,000 and 100,000 in runs/pretrain_flat/steps, to fine-tune from.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(name="flat", lines=940_000, validation=10_000 / 940_000)
  return config
