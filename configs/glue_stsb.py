"""Fine-tunes BERT on STS-B as shifted text: how similar are two sentences?

  python -m discipline_jax.main --config=configs/glue_stsb.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/STS-B/
below --config.data_dir; it is downloaded if it is missing. Expected Spearman correlation, times 100, on the validation
set (from the paper): 77.8 with BERT, 8.3 from scratch (--config.model.init=scratch); 86.7 with BERT on the text as it
is (--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_stsb", model)
