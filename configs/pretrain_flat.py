"""Each symbol twice in a line, anywhere: what is left over when all pairs are taken.

  python -m discipline_jax.main --config=configs/pretrain_flat.py
  python -m discipline_jax.main --config=configs/pretrain_flat.py:12x768

Symbols are as frequent as by Zipf's law, or, with --config.corpus.path=TEXT --config.corpus.vocabulary=DIR, as the
tokens of TEXT with the tokenizer of a model in DIR.

The corpus and its 930,000 lines are those of Chiang and Lee (2022), with 10,000 more held out; nothing is downloaded.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(name="flat", lines=940_000, validation=10_000 / 940_000)
  return config
