"""Turns a table of your own into vectors, one for each row, or one for each symbol of a row.

  python -m discipline_jax.main --config=embed:minilm --config.task.path=FILE --config.embed.output=out.npz
  python -m discipline_jax.main --config=embed --workdir=runs/custom --config.task.path=FILE \\
    --config.embed.output=out.npz

A row is a sequence of letters, or of the symbols that --config.task.symbols names. If rows are texts, such as
sentences, and the model is one of text, add --config.task.symbols=text: then the tokenizer of the model reads them.

The first command takes a model by a name of docs/models.md, or any other with --config.model.checkpoint (also
WORKDIR@STEP of a pre-training), the second the model of a finished fine-tuning. FILE has a column `sequence`;
docs/own_data.md says how to give anything else, and what out.npz has. Expected: a progress bar, and a file with the
mean of the last hidden states over each row's tokens; all-MiniLM-L6-v2 gives vectors of 384 numbers.
"""

from discipline_jax import defaults, modes


def get_config(model: str = ""):
  config = modes.embed()
  return defaults.use_model(config, model) if model else config
