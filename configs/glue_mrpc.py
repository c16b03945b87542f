"""Fine-tunes BERT on MRPC: do two sentences say the same? Every token is moved by 1,000 rows (shifted text).

  python -m discipline_jax.main --config=configs/glue_mrpc.py

Needs glue_data/MRPC/ below --config.data_dir; it is downloaded if it is missing. Expected F1 on the validation set (the
paper's): 82.9 with BERT, 81.3 from scratch (--config.model.init=scratch); 85.5 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_mrpc", model)
