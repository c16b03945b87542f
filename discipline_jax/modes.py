"""Defines the default config of each mode; a study has none, because it holds whole configs."""

from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from discipline_jax.defaults import finetune, pretrain


def of_mode(mode: str) -> ConfigDict:
  """Returns the default config of a mode."""
  return MODES[mode]()


def compare() -> ConfigDict:
  """Returns the config of a comparison, whose runs take all fields of fine-tuning that `compare` does not set."""
  return _of_several_runs(
    "compare",
    {
      "inits": ("pretrained", "scratch", "re_emb"),  # values of model.init that are compared
      "rates": (3e-5, 1e-4, 3e-4),  # learning rates that each init tries, on the first seed
      "minutes": placeholder(float),  # bounds it by fewer seeds, then epochs; unset: no bound
    },
  )


def search() -> ConfigDict:
  """Returns the config of a search, whose runs take all fields of fine-tuning that `search` does not set."""
  return _of_several_runs(
    "search",
    {
      "inits": ("pretrained", "scratch"),  # values of model.init, each with a winner of its own
      "optimizers": ("adam", "adagrad", "adamax", "radam", "novograd"),  # for train.optimizer
      "rates": (1e-5, 1e-4, 1e-3),  # values of train.learning_rate, for each optimizer
      "rungs": 3,  # rounds; each trains `factor` times as long as the one before, the last one in full
      "factor": 3,  # of so many candidates of a rung, one goes on to the next
    },
  )


def _of_several_runs(mode: str, fields: dict[str, Any]) -> ConfigDict:
  """Returns the config of fine-tuning, for three seeds, with a block of fields that its runs do not have."""
  config = finetune().unlock()
  config.update({"mode": mode, "replicas": 3, mode: fields})
  with config.ignore_type():
    config.eval.every_steps = placeholder(int)  # unset: an epoch
  return config.lock()


MODES = {
  "finetune": finetune,
  "pretrain": pretrain,
  "predict": finetune,
  "export": finetune,
  "compare": compare,
  "search": search,
}
