"""Pre-trains a BERT on Kannada, a script that English text does not have, with its own WordPiece of 30,000 tokens.

  python -m discipline_jax.main --config=configs/pretrain_kannada.py --config.corpus.path=DIR
  python -m discipline_jax.main --config=configs/pretrain_kannada.py:12x768 --config.corpus.path=DIR

DIR has plain text with blank lines between documents. Expected: the steps 0, 20,000 and 100,000 in
runs/pretrain_kannada/steps, to fine-tune from.
"""

from discipline_jax import defaults


def get_config(size: str = "8x512"):
  config = defaults.transfer(size)
  config.corpus.update(
    language="kn", lowercase=False
  )  # lowercasing would remove the marks that are vowels
  config.model.config.vocab_size = 30_000
  return config
