"""A BERT of 4 x 256 with a WordPiece of 8,000 of its own, for a machine with two cores: an hour.

  python -m discipline_jax.main --config=configs/pretrain_small.py --config.corpus.path=DIR

DIR is a file or folder of text: WikiExtractor's, plain with blank lines between documents, or JSON lines; also .gz and
.xz. Expected on 100 MB of English Wikipedia: see RESULTS.md.
"""

from discipline_jax import defaults


def get_config():
  config = defaults.pretrain()
  config.corpus.update(length=(128,), draws=2)
  config.model.config.update(
    vocab_size=8000,
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=1024,
    max_position_embeddings=512,
  )
  config.train.update(
    batch_size=32, steps=12_000, phases=(1.0,), learning_rate=5e-4, warmup_steps=600
  )
  config.eval.update(every_steps=1000, batch_size=64, max_examples=1024)
  config.checkpoint.update(every_steps=500, keep_steps=(0, 1000, 4000, 12_000))
  return config
