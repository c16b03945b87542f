"""Fine-tunes BERT on MNLI: does one sentence follow from another? Every token is moved by 1,000 rows (shifted text).

  python -m discipline_jax.main --config=configs/glue_mnli.py

Needs glue_data/MNLI/ below --config.data_dir; it is downloaded if it is missing. Expected accuracy (matched) on the
validation set (the paper's): 68.6 with BERT, 61.4 from scratch (--config.model.init=scratch); 84.0 with BERT on the
text as it is (--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_mnli", model)
