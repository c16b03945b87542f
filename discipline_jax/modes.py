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


def analyze() -> ConfigDict:
  """Returns the config of an analysis, which takes the task and its inputs from the fields of fine-tuning."""
  config = finetune().unlock()
  config.update(
    {
      "mode": "analyze",
      "analysis": {
        # similarity | attention | isometry | gradients | perturbation | layernorm | probe
        "measure": "similarity",
        # [INIT:]SOURCE: a checkpoint or a finished --workdir; empty: model.checkpoint and the same from scratch
        "models": (),
        "part": "test",  # of the task: its samples are used (gradients: those of train)
        "samples": 200,  # the first so many; for `probe`, of the training samples
        "dropout": "off",  # off | on | authors (on in networks from scratch and those of the discipline)
        "layers": "last",  # similarity: last | each (with its own of the other network) | pairs (all)
        "tokens": placeholder(int),  # similarity: the first so many; unset: all of the samples
        "standardise": False,  # similarity: divides features by their deviation; reads the samples twice
        "ridge": 1.5e-3,  # similarity: of the authors' form
        "batches": 100,  # gradients: mini-batches of train.batch_size
        "scales": (1e-2, 1e-4, 1e-6, 1e-8),  # perturbation: deviations of the noise
        "repeats": 3,  # perturbation: draws of noise
      },
    }
  )
  return config.lock()


def embed() -> ConfigDict:
  """Returns the config of embedding a table: fields of fine-tuning, for a table of one's own, and no model yet."""
  config = finetune()
  config.mode = "embed"
  config.task.name = "custom"
  return config


def _of_several_runs(mode: str, fields: dict[str, Any]) -> ConfigDict:
  """Returns the config of fine-tuning, for three seeds, with a block of fields that its runs do not have."""
  config = finetune().unlock()
  config.update({"mode": mode, "replicas": 3, mode: fields})
  with config.ignore_type():
    config.eval.every_steps = placeholder(int)  # unset: an epoch
  return config.lock()


MODES = {
  "analyze": analyze,
  "finetune": finetune,
  "pretrain": pretrain,
  "predict": finetune,
  "export": finetune,
  "embed": embed,
  "inspect": finetune,  # or of pre-training
  "compare": compare,
  "search": search,
}
