"""SST-2: is a review good or bad? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_sst2.py

Needs glue_data/SST-2/ below --config.data_dir. The paper's accuracy on the validation set: 92.2 where the text is as it
is (--config.token_map.kind=identity), and shifted 79.6 (BERT) against 81.0 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_sst2", model)
