"""Pre-trains RoBERTa-base (Liu et al. 2019): masked tokens alone, on rows of 512 tokens.

  python -m discipline_jax.main --config=configs/pretrain_roberta.py --config.corpus.name=text --config.corpus.path=DIR

New masks are chosen each time that a row is used. Rows do not cross documents (the original's DOC-SENTENCES). The
original also makes 500,000 updates of 8,192 rows, on 160 GB of text. Its Adam has 0.98 for the second moment and an
epsilon of 1e-6; here they are 0.999 and 1e-8. Expected: the steps 0, 100,000, 300,000 and 500,000 in
runs/pretrain_roberta/steps, and the held-out loss and accuracy in result.json.
"""

from discipline_jax.configs import pretrain_bert_base


def get_config():
  config = pretrain_bert_base.get_config()
  config.objective.kind = "mlm"
  config.corpus.update(vocabulary="FacebookAI/roberta-base", length=(512,), draws=1)
  config.model.config.update(
    model_type="roberta", max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
  )
  config.train.update(
    batch_size=8192,
    grad_accumulation=32,
    steps=500_000,
    phases=(1.0,),
    learning_rate=6e-4,
    warmup_steps=24_000,
    max_grad_norm=0.0,
  )
  config.checkpoint.keep_steps = (0, 100_000, 300_000, 500_000)
  return config
