"""Fine-tunes BERT on STS-B: how similar are two sentences? Every token is moved by 1,000 rows (shifted text).

  python -m discipline_jax.main --config=configs/glue_stsb.py

Needs glue_data/STS-B/ below --config.data_dir; it is downloaded if it is missing. Expected Spearman correlation on the
validation set (the paper's): 77.8 with BERT, 8.3 from scratch (--config.model.init=scratch); 86.7 with BERT on the text
as it is (--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_stsb", model)
