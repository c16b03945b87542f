"""MNLI: does one sentence follow from another? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_mnli.py

Needs glue_data/MNLI/ below --config.data_dir. The paper's accuracy (matched) on the validation set: 84.0 where the
text is as it is (--config.token_map.kind=identity), and shifted 68.6 (BERT) against 61.4 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_mnli", model)
