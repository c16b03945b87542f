"""Pre-trains a BERT of 4 layers x 256 with its own WordPiece of 8,000 tokens, on a machine with two cores.

  python -m discipline_jax.main --config=configs/pretrain_small.py --config.corpus.path=DIR

DIR is a file or folder of text: WikiExtractor's output, plain text with blank lines between documents, or JSON lines;
also .gz and .xz. Expected: the steps 0, 200, 1,000 and 4,000 in runs/pretrain_small/steps, and the held-out losses and
accuracies in result.json; RESULTS.md has those on 105 MB of English Wikipedia.
"""

from discipline_jax import defaults


def get_config():
  config = defaults.pretrain()
  config.corpus.length = (128,)
  config.train.phases = (1.0,)
  config.model.config.update(
    vocab_size=8000,
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=1024,
  )
  config.train.update(batch_size=32, steps=4000, learning_rate=1e-3, warmup_steps=400)
  config.train.log_every_steps = 20
  config.eval.update(every_steps=200, batch_size=64, max_examples=1024)
  config.checkpoint.update(every_steps=200, keep_steps=(0, 200, 1000))
  return config
