"""Pre-trains ALBERT-base (Lan et al. 2020): one layer used twelve times, embeddings of 128, and the order of segments.

  python -m discipline_jax.main --config=configs/pretrain_albert.py --config.corpus.name=text --config.corpus.path=DIR

The original also makes 125,000 updates of 4,096 rows, but with LAMB, and masks up to three tokens in a row; here it is
AdamW and single tokens. Dropout is as in ALBERT's first version. Expected: the steps 0, 25,000, 75,000 and 125,000 in
runs/pretrain_albert/steps, and the held-out losses and accuracies in result.json.
"""

from discipline_jax.configs import pretrain_bert_base


def get_config():
  config = pretrain_bert_base.get_config()
  config.objective.kind = "mlm_sop"
  config.corpus.update(vocabulary="albert/albert-base-v1", length=(512,))
  config.model.config.update(
    model_type="albert",
    embedding_size=128,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
    hidden_act="gelu",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
  )
  config.train.update(
    batch_size=4096,
    grad_accumulation=16,
    steps=125_000,
    phases=(1.0,),
    learning_rate=5e-4,
    warmup_steps=3125,
  )
  config.checkpoint.keep_steps = (0, 25_000, 75_000, 125_000)
  return config
