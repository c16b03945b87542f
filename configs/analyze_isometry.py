"""Measures how evenly networks pass changes on, by the singular values of the Jacobian of an output token.

  python -m discipline_jax.main --config=configs/analyze_isometry.py --config.data_dir=DATA

For each of 20 texts of shifted GLUE, one of its tokens is drawn. The Jacobian of its last hidden state by all
embeddings is taken as a whole, and in blocks of one input token each, as in the authors' code (figure 10 of the
paper).
"""

from discipline_jax import defaults, modes


def get_config(model: str = "bert"):
  config = modes.analyze()
  config.task.name = "glue_mrpc"
  config.token_map.kind = "shift"
  config.analysis.update(measure="isometry", samples=20)
  return defaults.use_model(config, model)
