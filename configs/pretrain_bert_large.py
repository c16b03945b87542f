"""Pre-trains BERT-large (Devlin et al. 2019): 24 layers x 1,024, everything else as in pretrain_bert_base.

  python -m discipline_jax.main --config=pretrain_bert_large --config.model.dtype=bfloat16 --config.remat=True

Expected: the steps 0, 20,000, 200,000, 500,000 and 1,000,000 in runs/pretrain_bert_large/steps, and the held-out losses
and accuracies in result.json.
"""

from discipline_jax.configs import pretrain_bert_base


def get_config():
  config = pretrain_bert_base.get_config()
  config.model.config.update(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
  )
  return config
