"""Fine-tunes BERT on MNLI as shifted text: does one sentence follow from another?

  python -m discipline_jax.main --config=configs/glue_mnli.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/MNLI/
below --config.data_dir; it is downloaded if it is missing. Expected accuracy on the matched validation set (from the
paper): 68.6 with BERT, 61.4 from scratch (--config.model.init=scratch); 84.0 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_mnli", model)
