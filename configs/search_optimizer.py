"""Searches the optimizer and the learning rate as the paper's appendix A does, for each init by itself.

  python -m discipline_jax.main --config=search_optimizer --config.data_dir=DATA
  python -m discipline_jax.main --config=search_optimizer:protein_fluorescence --config.data_dir=DATA

The paper tried Adagrad, Adam, Adamax, RAdam and NovoGrad with rates from 1e-7 to 1e-4, three runs each, on MRPC (and
in its second version on protein fluorescence), and took what is best from scratch, on the training set of MRPC. Here it
is the validation part that decides, and every init has a winner of its own, so that none is compared at a rate that was
chosen for another. By successive halving (a ninth of the updates, a third, all) a search needs less than 40% of the
updates of the full grid. Expected: a table of the candidates that were trained in full, with the winner of each init;
the paper's choice was Adam, with 1e-5.
"""

from discipline_jax import defaults, modes


def get_config(task: str = "glue_mrpc"):
  config = modes.search()
  config.task.name = task
  config.search.rates = (1e-7, 1e-6, 1e-5, 3e-5, 1e-4)
  if task.startswith("glue_"):  # as the other configs of shifted text
    config.token_map.kind = "shift"
    config.train.epochs = 3
  elif task == "custom":
    config.task.standardise = True  # of values; classes have no scale
  else:
    config.token_map.kind = "random"
  return defaults.use_model(config, "bert")
