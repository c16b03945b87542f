"""Fine-tunes BERT on SST-2 as shifted text: is a film review good or bad?

  python -m discipline_jax.main --config=configs/glue_sst2.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/SST-2/
below --config.data_dir; it is downloaded if it is missing. Expected accuracy on the validation set (from the paper):
79.6 with BERT, 81.0 from scratch (--config.model.init=scratch); 92.2 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_sst2", model)
