"""RTE: does one sentence follow from another? Every token is moved by 1,000 rows.

  python -m discipline_jax.main --config=configs/glue_rte.py

Needs glue_data/RTE/ below --config.data_dir. The paper's accuracy on the validation set: 62.1 where the text is as it
is (--config.token_map.kind=identity), and shifted 60.2 (BERT) against 54.2 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_rte", model)
