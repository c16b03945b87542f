"""Translates the names of parameters, which are BERT's, to the names in the checkpoints of each family."""

import re

from discipline_jax.models.config import ModelConfig


def checkpoint_name(name: str, config: ModelConfig) -> str:
  """Returns the name of a parameter in a checkpoint of the family, without the encoder's prefix (`bert.`).

  Args:
    name: the parameter's path in this package without `base_model.`, such as
      `encoder.layer.0.attention.self.query.weight`.
    config: config of the model; ALBERT's names contain the group and the layer within it.
  """
  for pattern, replacement in config.family.renames:
    name = re.sub(pattern, replacement, name)
  if config.num_hidden_groups is not None:
    name = re.sub(r"^encoder\.layer\.(\d+)\.", lambda match: _albert_layer(match, config), name)
  return name


def _albert_layer(match: re.Match, config: ModelConfig) -> str:
  """Returns the name of a layer that shares its weights with others, which only ALBERT has."""
  group, inner = divmod(int(match[1]), config.inner_group_num)
  return f"encoder.albert_layer_groups.{group}.albert_layers.{inner}."
