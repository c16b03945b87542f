"""Fine-tunes BERT on QNLI as shifted text: does a sentence answer a question?

  python -m discipline_jax.main --config=configs/glue_qnli.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/QNLI/
below --config.data_dir; it is downloaded if it is missing. Expected accuracy on the validation set (from the paper):
80.0 with BERT, 61.1 from scratch (--config.model.init=scratch); 91.2 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_qnli", model)
