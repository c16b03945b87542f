"""BERT-large (Devlin et al. 2019): 24 layers of 1,024.

python -m discipline_jax.main --config=configs/pretrain_bert_large.py --config.model.dtype=bfloat16 --config.remat=True
"""

from discipline_jax.configs import pretrain_bert_base


def get_config():
  config = pretrain_bert_base.get_config()
  config.model.config.update(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
  )
  return config
