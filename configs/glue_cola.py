"""Fine-tunes BERT on CoLA as shifted text: is a sentence grammatical?

  python -m discipline_jax.main --config=configs/glue_cola.py

In shifted text, each token is replaced by the one 1,000 places further on in the vocabulary. Needs glue_data/CoLA/
below --config.data_dir; it is downloaded if it is missing. Expected Matthews correlation, times 100, on the validation
set (from the paper): 0.0 with BERT, 0.0 from scratch (--config.model.init=scratch); 55.0 with BERT on the text as it is
(--config.token_map.kind=identity).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  return defaults.shifted_glue("glue_cola", model)
