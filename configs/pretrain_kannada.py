"""A BERT on Kannada, whose script no English text has, with a WordPiece of 30,000 of its own.

  python -m discipline_jax.main --config=configs/pretrain_kannada.py --config.corpus.path=DIR
  python -m discipline_jax.main --config=configs/pretrain_kannada.py:12x768 --config.corpus.path=DIR

DIR has plain text with blank lines between documents.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(
    language="kn", lowercase=False
  )  # vowels are marks, which lowercase takes away
  config.model.config.vocab_size = 30_000
  return config
