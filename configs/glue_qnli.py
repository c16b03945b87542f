"""QNLI: does a sentence answer a question? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_qnli.py

Needs glue_data/QNLI/ below --config.data_dir. The paper's accuracy on the validation set: 91.2 where the text is as it
is (--config.token_map.kind=identity), and shifted 80.0 (BERT) against 61.1 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_qnli", model)
