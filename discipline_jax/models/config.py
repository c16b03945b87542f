"""Sizes and options of an encoder, with Hugging Face's names, read from a `config.json`.

One network serves BERT, RoBERTa, ALBERT and PLUS-TFM. `ModelConfig` holds their differences: the first position or
sinusoidal positions, the width of the embeddings, the layers that share weights, the normalization, the dropout, and
the pooler.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.models.family import find_model_type
from discipline_jax.models.layers import ACTIVATIONS

# Defaults of transformers that differ from BERT's, for fields that a config.json leaves out.
_DEFAULTS: dict[str, dict[str, Any]] = {
  "bert": {},
  "roberta": {"vocab_size": 50265, "pad_token_id": 1},
  "albert": {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "num_hidden_groups": 1,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout": 0.1,
  },
  "plus_tfm": {"vocab_size": 25, "max_position_embeddings": 515},
}
FAMILIES = tuple(_DEFAULTS)
# Families that differ from another one by their training data and tokenizer alone.
_SAME_NETWORKS = {"xlm-roberta": "roberta", "camembert": "roberta"}
# ALBERT's name of the field `classifier_dropout`.
_CLASSIFIER_DROPOUT = {"albert": "classifier_dropout_prob"}
_ALBERT_ONLY = ("embedding_size", "num_hidden_groups", "inner_group_num")
_WITHOUT_SHARING = ("bert", "roberta")  # families that do not have these fields


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
  embedding_size: int | None = None  # ALBERT's factorised embeddings; None means hidden_size
  num_hidden_groups: int | None = None  # ALBERT's groups share weights; None means no sharing
  inner_group_num: int = 1  # number of layers in one of ALBERT's groups
  is_decoder: bool = False  # True for a left-to-right BERT: no position sees a later one

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
    return self.pad_token_id + 1 if self.model_type == "roberta" else 0

  @property
  def has_sinusoids(self) -> bool:
    """Tells whether positions are sinusoids (Vaswani et al. 2017) instead of a trained table."""
    return self.model_type == "plus_tfm"

  @property
  def normalizes_by_root(self) -> bool:
    """Tells whether LayerNorm divides by the square root of the standard deviation, as in PLUS-TFM."""
    return self.model_type == "plus_tfm"

  @property
  def has_pooler(self) -> bool:
    """Tells whether there is a pooler, a dense layer on the first position; if not, heads read the position itself."""
    return self.model_type != "plus_tfm"

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
    return 0.0 if self.model_type == "albert" else self.hidden_dropout_prob

  @property
  def classifier_dropout_prob(self) -> float:
    """Returns the dropout rate of a head's input; by default it is `hidden_dropout_prob`, as in transformers."""
    rate = self.classifier_dropout
    return self.hidden_dropout_prob if rate is None else rate

  def to_dict(self) -> dict[str, Any]:
    """Returns the fields of a `config.json` that `from_dict` and transformers can read."""
    fields = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
    if self.model_type in _CLASSIFIER_DROPOUT and "classifier_dropout" in fields:
      fields[_CLASSIFIER_DROPOUT[self.model_type]] = fields.pop("classifier_dropout")
    if self.model_type != "albert":
      del fields["inner_group_num"]
    if not self.is_decoder:
      del fields["is_decoder"]
    return fields

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
    if model_type in _WITHOUT_SHARING:
      cls._check_no_sharing(fields, model_type, where)
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
    own_name = _CLASSIFIER_DROPOUT.get(model_type, "classifier_dropout")
    if own_name in fields:
      given["classifier_dropout"] = fields[own_name]
    values = _DEFAULTS[model_type] | given
    cls._check_values(values, where)
    config = cls(**values)
    config._check_sizes(where)
    return config

  @classmethod
  def _check_no_sharing(cls, fields: Mapping[str, Any], model_type: str, where: str) -> None:
    """Raises UserError for ALBERT's fields in another family, whose checkpoints could not hold such a network."""
    for name in _ALBERT_ONLY:
      if fields.get(name) is not None:
        raise UserError(
          f"{name} = {fields[name]!r}, {where}, is for ALBERT, but model_type is {model_type}; leave it unset, or set"
          " model_type to albert"
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
  fields["model_type"] = _SAME_NETWORKS.get(str(fields["model_type"]), fields["model_type"])
  if fields["model_type"] in _WITHOUT_SHARING:  # transformers does not look at these, either
    fields = {name: value for name, value in fields.items() if name not in _ALBERT_ONLY}
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
