"""Builds the optimizers of the paper's search, all of them from Optax, with a linear schedule."""

import jax
import optax
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


def make_schedule(train: ConfigDict, num_steps: int) -> optax.Schedule:
  """Returns linear warm-up from 0 over `warmup_steps` updates, then linear decay that reaches 0 after the last one."""
  warmup = optax.linear_schedule(0.0, train.learning_rate, train.warmup_steps)
  decay = optax.linear_schedule(train.learning_rate, 0.0, max(1, num_steps - train.warmup_steps))
  return (
    optax.join_schedules([warmup, decay], [train.warmup_steps]) if train.warmup_steps else decay
  )


def make_optimizer(train: ConfigDict, num_steps: int) -> optax.GradientTransformation:
  """Builds the optimizer that `config.train` describes."""
  decay = (
    [optax.add_decayed_weights(train.weight_decay, mask=decayed)] if train.weight_decay else []
  )
  clip = [optax.clip_by_global_norm(train.max_grad_norm)] if train.max_grad_norm else []
  return optax.chain(
    *clip,
    OPTIMIZERS[train.optimizer](),
    *decay,
    optax.scale_by_learning_rate(make_schedule(train, num_steps)),
  )


def decayed(params):
  """Marks the weights that decay: all but biases and LayerNorm weights (Devlin et al. 2019, appendix A.2)."""

  def is_decayed(path, _) -> bool:
    names = [str(part.key) for part in path]
    return names[-1] != "bias" and "LayerNorm" not in names

  return jax.tree_util.tree_map_with_path(is_decayed, params)
