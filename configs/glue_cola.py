"""Fine-tunes BERT on CoLA: is a sentence grammatical? Every token is moved by 1,000 rows (shifted text).

  python -m discipline_jax.main --config=configs/glue_cola.py

Needs glue_data/CoLA/ below --config.data_dir; it is downloaded if it is missing. Expected Matthews correlation on the
validation set (the paper's): 0.0 with BERT, 0.0 from scratch (--config.model.init=scratch); 55.0 with BERT on the text
as it is (--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_cola", model)
