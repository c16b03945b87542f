"""CoLA: is a sentence grammatical? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_cola.py

Needs glue_data/CoLA/ below --config.data_dir. The paper's Matthews correlation on the validation set: 55.0 where
the text is as it is (--config.token_map.kind=identity), and shifted 0.0 (BERT) against 0.0 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_cola", model)
