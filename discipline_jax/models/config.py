"""Sizes and switches of an encoder, under Hugging Face's names, read from a `config.json`.

BERT, RoBERTa, ALBERT and PLUS-TFM are one network here. What sets them apart is told by `ModelConfig`: where positions
begin or that they are sinusoids, how wide the embeddings are, which layers share weights, how they are normalized, what
is dropped out, and whether the first position is pooled.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.models.layers import ACTIVATIONS

# What transformers takes for a field that a config.json of the family leaves out, where it differs from BERT's.
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
# ALBERT's own name for it.
_CLASSIFIER_DROPOUT = {"albert": "classifier_dropout_prob"}


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
  pad_token_id: int = 0
  embedding_size: int | None = None  # ALBERT's factorised embeddings; None: hidden_size
  num_hidden_groups: int | None = None  # ALBERT's layers of a group share weights; None: none do
  inner_group_num: int = 1  # ALBERT's layers that a group is
  is_decoder: bool = (
    False  # True: a position sees none that follows it, in BERT's left-to-right models
  )

  @property
  def summary(self) -> str:
    return f"{self.model_type} {self.num_hidden_layers} x {self.hidden_size}"

  @property
  def embedding_features(self) -> int:
    """Width of the embeddings."""
    return self.hidden_size if self.embedding_size is None else self.embedding_size

  @property
  def first_position(self) -> int:
    """Row of the position table that the first token takes: RoBERTa's follows that of padding."""
    return self.pad_token_id + 1 if self.model_type == "roberta" else 0

  @property
  def has_sinusoids(self) -> bool:
    """Whether positions are sinusoids (Vaswani et al. 2017) and not a table."""
    return self.model_type == "plus_tfm"

  @property
  def normalizes_by_root(self) -> bool:
    """Whether LayerNorm divides by the root of the standard deviation, as PLUS-TFM does."""
    return self.model_type == "plus_tfm"

  @property
  def has_pooler(self) -> bool:
    """Whether the family has a dense layer on the first position; heads read the position itself otherwise."""
    return self.model_type != "plus_tfm"

  @property
  def max_length(self) -> int:
    """The most tokens that a row of a batch may have."""
    return self.max_position_embeddings - self.first_position

  @property
  def layer_order(self) -> list[int]:
    """Which of the network's own layers are run, one after the other: ALBERT's come again and again."""
    groups, inner = self.num_hidden_groups or self.num_hidden_layers, self.inner_group_num
    return [
      depth * groups // self.num_hidden_layers * inner + layer
      for depth in range(self.num_hidden_layers)
      for layer in range(inner)
    ]

  @property
  def feed_forward_dropout_prob(self) -> float:
    """ALBERT drops nothing out after the feed-forward network (Lan et al. 2020, section 4.7)."""
    return 0.0 if self.model_type == "albert" else self.hidden_dropout_prob

  @property
  def classifier_dropout_prob(self) -> float:
    """Of the input of a head; by default that of the hidden states, as in transformers."""
    rate = self.classifier_dropout
    return self.hidden_dropout_prob if rate is None else rate

  def to_dict(self) -> dict[str, Any]:
    """The fields of a `config.json`, as `from_dict` reads them and transformers too."""
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
    """Keeps the fields this class knows, and refuses what would silently compute something else.

    Args:
      fields: a parsed `config.json`, or the `model.config` of a run.
      where: the file or flag the fields came from, for messages.

    Raises:
      UserError: another architecture, an option that is not implemented, or an impossible size.
    """
    model_type = fields.get("model_type")
    if model_type not in FAMILIES:
      raise UserError(
        f"model_type {model_type!r}, {where}, is not one of: {', '.join(FAMILIES)}; give a checkpoint of these"
      )
    refused = {
      "position_embedding_type": fields.get("position_embedding_type", "absolute") != "absolute",
      "is_decoder": bool(fields.get("is_decoder", False)) and model_type != "bert",
      "add_cross_attention": bool(fields.get("add_cross_attention", False)),
    }
    for name, is_refused in refused.items():
      if is_refused:
        raise UserError(
          f"{name} = {fields[name]!r}, {where}, is not supported; give a plain encoder with absolute positions"
        )
    known = {field.name for field in dataclasses.fields(cls)}
    given = {name: value for name, value in fields.items() if name in known}
    if given.get("pad_token_id") is None:
      given.pop("pad_token_id", None)
    own_name = _CLASSIFIER_DROPOUT.get(model_type, "classifier_dropout")
    if own_name in fields:
      given["classifier_dropout"] = fields[own_name]
    config = cls(**_DEFAULTS[model_type] | given)
    config._check(where)
    return config

  def _check(self, where: str) -> None:
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      is_number = isinstance(value, int | float) and not isinstance(value, bool)
      least = 0 if field.name == "pad_token_id" else 1
      is_size = field.type is int or (field.type == int | None and value is not None)
      if is_size and not (is_number and isinstance(value, int) and value >= least):
        raise UserError(
          f"{field.name} = {value!r}, {where}, is not an integer from {least} on; correct it"
        )
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
    groups = self.num_hidden_groups or self.num_hidden_layers
    if groups > self.num_hidden_layers:
      raise UserError(
        f"num_hidden_groups = {groups}, {where}, is more than num_hidden_layers = {self.num_hidden_layers}; lower it"
      )
    if self.max_length < 1:
      raise UserError(
        f"max_position_embeddings = {self.max_position_embeddings}, {where}, leaves no position, since the first is"
        f" {self.first_position}; correct it"
      )
    if self.hidden_act not in ACTIVATIONS:
      raise UserError(
        f"hidden_act {self.hidden_act!r}, {where}, is not one of: {', '.join(ACTIVATIONS)}"
      )


def read_config(directory: pathlib.Path) -> ModelConfig:
  """Reads `directory/config.json`; raises UserError where it is missing, or another architecture's."""
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
