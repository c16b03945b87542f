"""What the families' checkpoints call a parameter of ours, whose names are BERT's."""

import re

from discipline_jax.models.config import ModelConfig

_RENAMES: dict[str, tuple[tuple[str, str], ...]] = {
  "bert": (),
  "plus_tfm": (),  # `models.plus_tfm` has translated them
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
  """The name of a parameter in a checkpoint of the family, without the encoder's prefix (`bert.`).

  Args:
    name: of ours, without `base_model.`: `encoder.layer.0.attention.self.query.weight`.
    config: of the model; ALBERT's names tell which layer of which group it is.
  """
  for pattern, replacement in _RENAMES[config.model_type]:
    name = re.sub(pattern, replacement, name)
  if config.model_type == "albert":
    name = re.sub(r"^encoder\.layer\.(\d+)\.", lambda match: _albert_layer(match, config), name)
  return name


def _albert_layer(match: re.Match, config: ModelConfig) -> str:
  group, inner = divmod(int(match[1]), config.inner_group_num)
  return f"encoder.albert_layer_groups.{group}.albert_layers.{inner}."
