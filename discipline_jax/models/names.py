"""Translates the names of parameters, which are BERT's, to the names in the checkpoints of each family."""

import re

from discipline_jax.models.config import ModelConfig

_RENAMES: dict[str, tuple[tuple[str, str], ...]] = {
  "bert": (),
  "plus_tfm": (),  # `models.plus_tfm` has already translated them
  "roberta": (
    (r"^cls\.predictions\.transform\.dense\.", "lm_head.dense."),
    (r"^cls\.predictions\.transform\.LayerNorm\.", "lm_head.layer_norm."),
    (r"^cls\.predictions\.", "lm_head."),
  ),
  "albert": (
    (r"\.attention\.self\.", ".attention."),
    (r"\.attention\.output\.", ".attention."),
    (r"\.intermediate\.dense\.", ".ffn."),
    (r"\.output\.dense\.", ".ffn_output."),
    (r"\.output\.LayerNorm\.", ".full_layer_layer_norm."),
    (r"^pooler\.dense\.", "pooler."),
    (r"^cls\.predictions\.transform\.", "predictions."),
    (r"^cls\.predictions\.", "predictions."),
    (r"^cls\.seq_relationship\.", "sop_classifier.classifier."),
  ),
}


def checkpoint_name(name: str, config: ModelConfig) -> str:
  """Returns the name of a parameter in a checkpoint of the family, without the encoder's prefix (`bert.`).

  Args:
    name: the parameter's path in this package without `base_model.`, such as
      `encoder.layer.0.attention.self.query.weight`.
    config: config of the model; ALBERT's names contain the group and the layer within it.
  """
  for pattern, replacement in _RENAMES[config.model_type]:
    name = re.sub(pattern, replacement, name)
  if config.model_type == "albert":
    name = re.sub(r"^encoder\.layer\.(\d+)\.", lambda match: _albert_layer(match, config), name)
  return name


def _albert_layer(match: re.Match, config: ModelConfig) -> str:
  group, inner = divmod(int(match[1]), config.inner_group_num)
  return f"encoder.albert_layer_groups.{group}.albert_layers.{inner}."
