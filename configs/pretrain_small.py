"""Pre-trains a BERT of 4 layers x 256 with its own WordPiece of 8,000 tokens, in about an hour on two CPU cores.

  python -m discipline_jax.main --config=configs/pretrain_small.py --config.corpus.path=DIR

DIR is a file or folder of text: WikiExtractor's output, plain text with blank lines between documents, or JSON lines;
also .gz and .xz. Expected: the steps 0, 500, 2,000, 3,600 and 4,000 in runs/pretrain_small/steps, and in result.json
the held-out loss, far below the loss of a model that looks at no neighbour; RESULTS.md has the curve on 105 MB of
English Wikipedia.

A small BERT stays for long on the plateau of models that know the frequencies of tokens and nothing else. These
settings leave it after 600 updates, BERT's own not within an hour: short rows in most updates (32 tokens, then 128),
many of them in an update; tokens to predict always become [MASK], so that no guess is right without neighbours; no next
sentences; no dropout; weights with a deviation of 0.05, because 0.02 is for 768 features.
"""

from discipline_jax import defaults


def get_config():
  config = defaults.pretrain()
  config.corpus.length = (32, 128)
  config.objective.kind = "mlm"
  config.masking.update(mask=1.0, same=0.0, random=0.0)
  config.model.update(dropout=0.0, attention_dropout=0.0)
  config.model.config.update(
    vocab_size=8000,
    hidden_size=256,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=1024,
    initializer_range=0.05,
  )
  config.train.update(
    batch_size=128, steps=4000, phases=(9, 1), learning_rate=4e-4, warmup_steps=200
  )
  config.train.log_every_steps = 20
  config.eval.update(every_steps=200, batch_size=128, max_examples=2048)
  config.checkpoint.update(every_steps=200, keep_steps=(0, 500, 2000, 3600))
  return config
