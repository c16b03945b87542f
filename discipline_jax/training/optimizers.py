"""Builds the optimizers of the paper's search, all from Optax, with a linear schedule, and says what they train."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import logging
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Float32
from ml_collections import ConfigDict

# Weight decay, if set, is decoupled for all of them (Loshchilov and Hutter 2019), so adam with decay is adamw.
OPTIMIZERS = {
  "adam": optax.scale_by_adam,
  "adamw": optax.scale_by_adam,
  "adagrad": optax.scale_by_rss,
  "adamax": optax.scale_by_adamax,
  "radam": optax.scale_by_radam,
  "novograd": optax.scale_by_novograd,
}

Path = tuple  # names and numbers that lead to a parameter


def _is_norm_or_outside(path: Path) -> bool:
  return path[0] != "base_model" or path[1] in ("embeddings", "pooler") or "LayerNorm" in path


# Which parameters are trained, by `train.parameters`. `norms` is the frozen transformer of Lu, Grover, Abbeel and
# Mordatch, Pretrained transformers as universal computation engines, 2021.
PARAMETERS: dict[str, Callable[[Path], bool]] = {
  "all": lambda path: True,
  "norms": _is_norm_or_outside,
  "head": lambda path: path[0] != "base_model",
}


def cut_parameters(params: dict, parameters: str) -> tuple[dict, dict]:
  """Returns the parameters that are trained and those that are not, each as a nested dict.

  Args:
    params: parameters, or a tree of the same form.
    parameters: a name of `PARAMETERS`.
  """
  leaves, is_trained = flatten_dict(params), PARAMETERS[parameters]
  trained = {path: leaf for path, leaf in leaves.items() if is_trained(path)}
  return unflatten_dict(trained), unflatten_dict(
    {path: leaf for path, leaf in leaves.items() if path not in trained}
  )


def warn_of_long_warmup(train: ConfigDict, num_steps: int) -> None:
  """Warns if there are too few updates for the learning rate to rise to `train.learning_rate`."""
  if 0 < num_steps <= train.warmup_steps:
    logging.warning(
      "train.warmup_steps = %d, but there are %d updates, so the learning rate never rises to %g; lower"
      " --config.train.warmup_steps",
      train.warmup_steps,
      num_steps,
      train.learning_rate,
    )


def make_schedule(train: ConfigDict, num_steps: int) -> optax.Schedule:
  """Returns linear warm-up from 0 over `warmup_steps` updates, then linear decay that reaches 0 after the last one."""
  warmup = optax.linear_schedule(0.0, train.learning_rate, train.warmup_steps)
  decay = optax.linear_schedule(train.learning_rate, 0.0, max(1, num_steps - train.warmup_steps))
  return (
    optax.join_schedules([warmup, decay], [train.warmup_steps]) if train.warmup_steps else decay
  )


def learning_rates(train: ConfigDict, num_steps: int) -> Float32[np.ndarray, " updates"]:
  """Returns the learning rate of each update."""
  return np.asarray(jax.jit(jax.vmap(make_schedule(train, num_steps)))(jnp.arange(num_steps)))


def make_optimizer(train: ConfigDict, rate: optax.Schedule) -> optax.GradientTransformation:
  """Builds the optimizer that `config.train` describes.

  Args:
    train: the block of the config.
    rate: the learning rate by the number of updates made. The form of the optimizer's state is the same for all.
  """
  decay = (
    [optax.add_decayed_weights(train.weight_decay, mask=decayed)] if train.weight_decay else []
  )
  clip = [optax.clip_by_global_norm(train.max_grad_norm)] if train.max_grad_norm else []
  return optax.chain(
    *clip,
    OPTIMIZERS[train.optimizer](),
    *decay,
    optax.scale_by_learning_rate(rate),
  )


def decayed(params):
  """Marks the weights that decay: all but biases and LayerNorm weights (Devlin et al. 2019, appendix A.2)."""

  def is_decayed(path, _) -> bool:
    names = [str(part.key) for part in path]
    return names[-1] != "bias" and "LayerNorm" not in names

  return jax.tree_util.tree_map_with_path(is_decayed, params)
