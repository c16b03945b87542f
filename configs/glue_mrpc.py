"""Fine-tunes BERT on MRPC as shifted text: do two sentences say the same?

  python -m discipline_jax.main --config=configs/glue_mrpc.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/MRPC/
below --config.data_dir; it is downloaded if it is missing. Expected F1, times 100, on the validation set (from the
paper): 82.9 with BERT, 81.3 from scratch (--config.model.init=scratch); 85.5 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_mrpc", model)
