"""QQP: do two questions ask the same? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_qqp.py

Needs glue_data/QQP/ below --config.data_dir. The paper's F1 on the validation set: 87.4 where the text is as it
is (--config.token_map.kind=identity), and shifted 81.2 (BERT) against 69.3 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_qqp", model)
