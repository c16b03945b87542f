"""Brackets that close as they opened, whose symbols are drawn like words: a hierarchy.

  python -m discipline_jax.main --config=configs/pretrain_nesting.py
  python -m discipline_jax.main --config=configs/pretrain_nesting.py:12x768

Symbols are as frequent as by Zipf's law, or, with --config.corpus.path=TEXT --config.corpus.vocabulary=DIR, as the
tokens of TEXT with the tokenizer of a model in DIR.

The corpus and its 230,000 lines are those of Chiang and Lee (2022), with 5,000 more held out; nothing is downloaded.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(name="nesting", lines=235_000, validation=5_000 / 235_000)
  return config
