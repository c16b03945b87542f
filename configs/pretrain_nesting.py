"""Pre-trains on nesting brackets, which close in the reverse order in which they opened: a hierarchy.

  python -m discipline_jax.main --config=configs/pretrain_nesting.py
  python -m discipline_jax.main --config=configs/pretrain_nesting.py:12x768

Symbols have the frequencies of Zipf's law, or of the tokens of a text, cut by the tokenizer of a model in DIR:
--config.corpus.path=TEXT --config.corpus.vocabulary=DIR.

The corpus is generated, and nothing is downloaded. It has the 230,000 lines of Chiang and Lee (2022), and 5,000 more
that are held out. Expected: the steps 0, 20,000 and 100,000 in runs/pretrain_nesting/steps, to fine-tune from.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(name="nesting", lines=235_000, validation=5_000 / 235_000)
  return config
