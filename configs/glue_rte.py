"""Fine-tunes BERT on RTE as shifted text: does one sentence follow from another?

  python -m discipline_jax.main --config=configs/glue_rte.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/RTE/ below
--config.data_dir; it is downloaded if it is missing. Expected accuracy on the validation set (from the paper): 60.2
with BERT, 54.2 from scratch (--config.model.init=scratch); 62.1 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_rte", model)
