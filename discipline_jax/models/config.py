"""Sizes and options of an encoder, with Hugging Face's names, read from a `config.json`.

One network serves all families. `models.families` lists their differences.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.models.families import FAMILIES, Family
from discipline_jax.models.layers import ACTIVATIONS
from discipline_jax.models.model_type import find_model_type

_OWN_SIZES = {name for family in FAMILIES.values() for name in family.own_sizes}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """The fields of a Hugging Face `config.json` that affect the computation.

  The defaults describe bert-base-uncased (Devlin et al. 2019).
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
  classifier_dropout: float | None = None  # None means hidden_dropout_prob, as in transformers
  max_position_embeddings: int = 512
  type_vocab_size: int = 2
  initializer_range: float = 0.02
  layer_norm_eps: float = 1e-12
  pad_token_id: int = 0
  embedding_size: int | None = None  # of factorised embeddings; None means hidden_size
  num_hidden_groups: int | None = None  # ALBERT's groups share weights; None means no sharing
  inner_group_num: int = 1  # number of layers in one of ALBERT's groups
  is_decoder: bool = False  # True for a left-to-right BERT: no position sees a later one

  @property
  def family(self) -> Family:
    """Returns in what the network differs from BERT's."""
    return FAMILIES[self.model_type]

  @property
  def summary(self) -> str:
    """Returns the family and the size in a few words, for messages."""
    return f"{self.model_type} {self.num_hidden_layers} x {self.hidden_size}"

  @property
  def embedding_features(self) -> int:
    """Returns the width of the embeddings."""
    return self.hidden_size if self.embedding_size is None else self.embedding_size

  @property
  def first_position(self) -> int:
    """Returns the row of the position table for the first token; RoBERTa's is the one after the padding's row."""
    return self.pad_token_id + 1 if self.family.counts_padding else 0

  @property
  def max_length(self) -> int:
    """Returns the largest number of tokens in a row of a batch."""
    return self.max_position_embeddings - self.first_position

  @property
  def layer_order(self) -> list[int]:
    """Returns the indices of the layers in the order in which they run; ALBERT runs the same layer several times."""
    groups, inner = self.num_hidden_groups or self.num_hidden_layers, self.inner_group_num
    return [
      depth * groups // self.num_hidden_layers * inner + layer
      for depth in range(self.num_hidden_layers)
      for layer in range(inner)
    ]

  @property
  def feed_forward_dropout_prob(self) -> float:
    """Returns the dropout rate after the feed-forward network; ALBERT has none (Lan et al. 2020, section 4.7)."""
    return self.hidden_dropout_prob if self.family.feed_forward_dropout else 0.0

  def head_dropout_prob(self, head: str) -> float:
    """Returns the dropout rate of a head's input, by the head's name in `Family.dropout_heads`."""
    rate = self.classifier_dropout if head in self.family.dropout_heads else None
    return self.hidden_dropout_prob if rate is None else rate

  def to_dict(self) -> dict[str, Any]:
    """Returns the fields of a `config.json` that `from_dict` and transformers can read."""
    fields = dataclasses.asdict(self) | {"embedding_size": self.embedding_features}
    for name in _OWN_SIZES - {*self.family.own_sizes}:
      del fields[name]
    if not self.family.has_segments:
      del fields["type_vocab_size"]
    if not self.is_decoder:
      del fields["is_decoder"]
    names = self.family.fields
    return {names.get(name, name): value for name, value in fields.items() if value is not None}

  @classmethod
  def from_dict(cls, fields: Mapping[str, Any], where: str) -> "ModelConfig":
    """Makes a config from fields; ignores unknown fields, and refuses options that are not implemented.

    Args:
      fields: a parsed `config.json`, or the `model.config` of a run.
      where: the file or flag that the fields come from, for messages.

    Raises:
      UserError: another architecture, an option that is not implemented, or an impossible size.
    """
    model_type = fields.get("model_type")
    if model_type not in FAMILIES:
      raise UserError(
        f"model_type {model_type!r}, {where}, is not one of: {', '.join(FAMILIES)}; give a checkpoint of one of these"
      )
    family = FAMILIES[model_type]
    cls._check_own_sizes(fields, model_type, where)
    refused = {
      "pruned_heads": bool(fields.get("pruned_heads")),
      "quantization_config": fields.get("quantization_config") is not None,
      "position_embedding_type": fields.get("position_embedding_type", "absolute") != "absolute",
      "is_decoder": bool(fields.get("is_decoder", False)) and model_type != "bert",
      "add_cross_attention": bool(fields.get("add_cross_attention", False)),
    }
    for name, is_refused in refused.items():
      if is_refused:
        raise UserError(
          f"{name} = {repr(fields[name])[:60]}, {where}, is not supported; give a plain encoder with absolute"
          " positions, all of its heads, and weights that are not quantised"
        )
    known = {field.name for field in dataclasses.fields(cls)}
    given = {name: value for name, value in fields.items() if name in known}
    if given.get("pad_token_id") is None:
      given.pop("pad_token_id", None)
    given |= {name: fields[own] for name, own in family.fields.items() if own in fields}
    values = {**family.defaults, **given}
    cls._check_values(values, where)
    config = cls(**values)
    config._check_sizes(where)
    if not family.projects_always and config.embedding_size == config.hidden_size:
      return dataclasses.replace(config, embedding_size=None)
    return config

  @classmethod
  def _check_own_sizes(cls, fields: Mapping[str, Any], model_type: str, where: str) -> None:
    """Raises UserError for sizes of other families, because the family's checkpoints could not hold such a network."""
    for name in sorted(_OWN_SIZES - {*FAMILIES[model_type].own_sizes}):
      if fields.get(name) is not None:
        others = [other for other, family in FAMILIES.items() if name in family.own_sizes]
        raise UserError(
          f"{name} = {fields[name]!r}, {where}, is for {', '.join(others)}, but model_type is {model_type}; leave it"
          " unset, or set another model_type"
        )

  @classmethod
  def _check_values(cls, values: Mapping[str, Any], where: str) -> None:
    for field in dataclasses.fields(cls):
      value = values.get(field.name, field.default)
      is_number = isinstance(value, int | float) and not isinstance(value, bool)
      least = 0 if field.name == "pad_token_id" else 1
      is_size = field.type is int or (field.type == int | None and value is not None)
      if is_size and not (is_number and isinstance(value, int) and value >= least):
        raise UserError(
          f"{field.name} = {value!r}, {where}, is not an integer of at least {least}; correct it"
        )
      if "dropout" in field.name and value is not None and not (is_number and 0 <= value < 1):
        raise UserError(f"{field.name} = {value!r}, {where}, is not in [0, 1); correct it")
      if field.name in ("initializer_range", "layer_norm_eps") and not (
        is_number and 0 < value < 1
      ):
        raise UserError(f"{field.name} = {value!r}, {where}, is not in (0, 1); correct it")
    if values.get("hidden_act", "gelu") not in ACTIVATIONS:
      raise UserError(
        f"hidden_act {values['hidden_act']!r}, {where}, is not one of: {', '.join(ACTIVATIONS)};"
        " give a checkpoint with one of these"
      )

  def _check_sizes(self, where: str) -> None:
    if self.hidden_size % self.num_attention_heads:
      raise UserError(
        f"hidden_size {self.hidden_size}, {where}, is not a multiple of num_attention_heads"
        f" {self.num_attention_heads}; change one of them"
      )
    groups = self.num_hidden_groups or self.num_hidden_layers
    if groups > self.num_hidden_layers:
      raise UserError(
        f"num_hidden_groups = {groups}, {where}, is more than num_hidden_layers = {self.num_hidden_layers}; reduce it"
      )
    if self.max_length < 1:
      raise UserError(
        f"max_position_embeddings = {self.max_position_embeddings}, {where}, leaves no position, because the first is"
        f" {self.first_position}; increase it"
      )


def read_config(directory: pathlib.Path) -> ModelConfig:
  """Reads `directory/config.json`; a `model_type` that it lacks follows from the other files.

  Raises:
    UserError: the file is missing, broken, or of another architecture.
  """
  fields = read_fields(directory)
  if fields.get("model_type") is None:
    fields["model_type"] = find_model_type(directory, fields)
  for name, family in FAMILIES.items():
    if fields["model_type"] in (name, *family.aliases):
      # transformers does not look at sizes of other families, either.
      others = _OWN_SIZES - {*family.own_sizes}
      fields = {field: fields[field] for field in fields if field not in others}
      fields["model_type"] = name
  return ModelConfig.from_dict(fields, str(directory / "config.json"))


def read_fields(directory: pathlib.Path) -> dict[str, Any]:
  """Returns all fields of `directory/config.json`; raises UserError if it is missing or broken."""
  path = directory / "config.json"
  try:
    fields = json.loads(path.read_text(encoding="utf-8-sig"))
  except FileNotFoundError:
    if (directory / "adapter_config.json").is_file():
      raise UserError(
        f"an adapter of the library PEFT, not a whole model, {directory}; load it with PEFT on its base model, and give"
        " the directory that merge_and_unload().save_pretrained(DIR) writes"
      ) from None
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
  return fields
