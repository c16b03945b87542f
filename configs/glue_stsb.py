"""STS-B: how like are two sentences, from 0 to 5? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_stsb.py

Needs glue_data/STS-B/ below --config.data_dir. The paper's Spearman correlation on the validation set: 86.7 where
the text is as it is (--config.token_map.kind=identity), and shifted 77.8 (BERT) against 8.3 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_stsb", model)
