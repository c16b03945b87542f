"""MRPC: do two sentences say the same? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_mrpc.py

Needs glue_data/MRPC/ below --config.data_dir. The paper's F1 on the validation set: 85.5 where the text is as it
is (--config.token_map.kind=identity), and shifted 82.9 (BERT) against 81.3 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_mrpc", model)
