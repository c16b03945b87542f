"""Sizes and switches of an encoder, under Hugging Face's names, read from a `config.json`."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.models.layers import ACTIVATIONS


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """The fields of a Hugging Face `config.json` that change what the network computes.

  The defaults are those of bert-base-uncased (Devlin et al. 2019).
  """

  model_type: str = "bert"
  vocab_size: int = 30522
  hidden_size: int = 768
  num_hidden_layers: int = 12
  num_attention_heads: int = 12
  intermediate_size: int = 3072
  hidden_act: str = "gelu"
  hidden_dropout_prob: float = 0.1
  attention_probs_dropout_prob: float = 0.1
  classifier_dropout: float | None = None  # None: hidden_dropout_prob, as in transformers
  max_position_embeddings: int = 512
  type_vocab_size: int = 2
  initializer_range: float = 0.02
  layer_norm_eps: float = 1e-12

  @classmethod
  def from_dict(cls, fields: Mapping[str, Any], where: str) -> "ModelConfig":
    """Keeps the fields this class knows, and refuses what would silently compute something else.

    Args:
      fields: a parsed `config.json`, or the `model.config` of a run.
      where: the file or flag the fields came from, for messages.

    Raises:
      UserError: another architecture, an option that is not implemented, or an impossible size.
    """
    model_type = fields.get("model_type")
    if model_type != "bert":
      raise UserError(
        f"model_type {model_type!r}, {where}, is not one of: bert; give a BERT checkpoint"
      )
    refused = {
      "position_embedding_type": fields.get("position_embedding_type", "absolute") != "absolute",
      "is_decoder": bool(fields.get("is_decoder", False)),
      "add_cross_attention": bool(fields.get("add_cross_attention", False)),
    }
    for name, is_refused in refused.items():
      if is_refused:
        raise UserError(
          f"{name} = {fields[name]!r}, {where}, is not supported; give an encoder with absolute positions"
        )
    known = {field.name: field for field in dataclasses.fields(cls)}
    config = cls(**{name: value for name, value in fields.items() if name in known})
    config._check(where)
    return config

  def _check(self, where: str) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      is_number = isinstance(value, int | float) and not isinstance(value, bool)
      if field.type is int and not (is_number and isinstance(value, int) and value > 0):
        raise UserError(f"{field.name} = {value!r}, {where}, is not a positive integer; correct it")
      if "dropout" in field.name and value is not None and not (is_number and 0 <= value < 1):
        raise UserError(f"{field.name} = {value!r}, {where}, is not in [0, 1); correct it")
      if field.name in ("initializer_range", "layer_norm_eps") and not (
        is_number and 0 < value < 1
      ):
        raise UserError(f"{field.name} = {value!r}, {where}, is not in (0, 1); correct it")
    if self.hidden_size % self.num_attention_heads:
      raise UserError(
        f"hidden_size {self.hidden_size}, {where}, is not a multiple of num_attention_heads"
        f" {self.num_attention_heads}; change one of them"
      )
    if self.hidden_act not in ACTIVATIONS:
      raise UserError(
        f"hidden_act {self.hidden_act!r}, {where}, is not one of: {', '.join(ACTIVATIONS)}"
      )


def read_config(directory: pathlib.Path) -> ModelConfig:
  """Reads `directory/config.json`; raises UserError where it is missing or not a BERT's."""
  path = directory / "config.json"
  try:
    fields = json.loads(path.read_text(encoding="utf-8"))
  except FileNotFoundError:
    raise UserError(
      f"no config.json in {directory}; give a directory in Hugging Face's format"
    ) from None
  except OSError as error:
    raise UserError(
      f"{error.strerror}, {path}; give a directory in Hugging Face's format"
    ) from None
  except (json.JSONDecodeError, UnicodeDecodeError) as error:
    raise UserError(f"not valid JSON ({error}), {path}; download the checkpoint again") from None
  if not isinstance(fields, dict):
    raise UserError(f"not a JSON object, {path}; download the checkpoint again")
  return ModelConfig.from_dict(fields, str(path))
