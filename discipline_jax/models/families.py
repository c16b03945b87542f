"""Lists the families of encoders: what of its network and of its names differs from BERT's.

A further family is one more entry of `FAMILIES`, if its network is BERT's but for what `Family` describes.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Family:
  """A family of encoders; the defaults describe BERT.

  Attributes:
    class_name: how the names of its classes in transformers begin.
    aliases: `model_type` of families that differ from this one by their training data and tokenizer alone.
    defaults: values of the fields that a config.json leaves out, where they are not those of `ModelConfig`.
    fields: the family's names of fields in config.json, by their names in `ModelConfig`.
    own_sizes: fields of `ModelConfig` that not all families have.
    renames: patterns in the names of BERT's parameters, and what stands there in the family's checkpoints.
    counts_padding: whether positions begin after the row of padding, which all padding has.
    has_segments: whether there is a table of token types.
    has_sinusoids: whether positions are sinusoids (Vaswani et al. 2017) instead of a trained table.
    projects_always: whether there is a projection behind embeddings that are as wide as the layers.
    normalizes_by_root: whether LayerNorm divides by the square root of the standard deviation.
    feed_forward_dropout: whether there is dropout after the feed-forward network.
    has_pooler: whether there is a pooler, a dense layer on the first position; if not, heads read the position itself.
    classifier_act: activation of the dense layer that a classifier of rows has of its own; None if it has none.
    dropout_before: whether there is dropout before that layer; behind it there always is.
    dropout_heads: the heads whose dropout is `classifier_dropout`: "rows", "tokens", "choices"; the others have that of
      the layers.
    lm_act: activation in the head of the language model; None means `hidden_act`.
    has_pairs: whether there is a pre-training task on pairs of segments.
    pairs_dropout: whether there is dropout before the head of that task.
  """

  class_name: str
  aliases: tuple[str, ...] = ()
  defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
  own_sizes: tuple[str, ...] = ()
  renames: tuple[tuple[str, str], ...] = ()
  counts_padding: bool = False
  has_segments: bool = True
  has_sinusoids: bool = False
  projects_always: bool = True
  normalizes_by_root: bool = False
  feed_forward_dropout: bool = True
  has_pooler: bool = True
  classifier_act: str | None = None
  dropout_before: bool = True
  dropout_heads: tuple[str, ...] = ("rows", "tokens", "choices")
  lm_act: str | None = None
  has_pairs: bool = True
  pairs_dropout: bool = False


FAMILIES = {
  "bert": Family("Bert"),
  "roberta": Family(
    "Roberta",
    aliases=("xlm-roberta", "camembert"),
    defaults={"vocab_size": 50265, "pad_token_id": 1},
    renames=(
      (r"^cls\.predictions\.transform\.dense\.", "lm_head.dense."),
      (r"^cls\.predictions\.transform\.LayerNorm\.", "lm_head.layer_norm."),
      (r"^cls\.predictions\.", "lm_head."),
    ),
    counts_padding=True,
    classifier_act="tanh",
    lm_act="gelu",
    dropout_heads=("rows", "tokens"),
    has_pairs=False,
  ),
  "albert": Family(
    "Albert",
    defaults={
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
    fields={"classifier_dropout": "classifier_dropout_prob"},
    own_sizes=("embedding_size", "num_hidden_groups", "inner_group_num"),
    renames=(
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
    feed_forward_dropout=False,
    pairs_dropout=True,
  ),
  "electra": Family(
    "Electra",
    defaults={
      "embedding_size": 128,
      "hidden_size": 256,
      "num_attention_heads": 4,
      "intermediate_size": 1024,
    },
    own_sizes=("embedding_size",),
    renames=(
      (r"^encoder\.embedding_hidden_mapping_in\.", "embeddings_project."),
      (r"^cls\.predictions\.transform\.", "generator_predictions."),
      (r"^cls\.predictions\.", "generator_lm_head."),
    ),
    projects_always=False,
    has_pooler=False,
    classifier_act="gelu",
    lm_act="gelu",
    dropout_heads=("rows", "tokens"),
    has_pairs=False,
  ),
  "distilbert": Family(
    "DistilBert",
    defaults={"num_hidden_layers": 6, "classifier_dropout": 0.2, "type_vocab_size": 1},
    fields={
      "hidden_size": "dim",
      "num_hidden_layers": "n_layers",
      "num_attention_heads": "n_heads",
      "intermediate_size": "hidden_dim",
      "hidden_act": "activation",
      "hidden_dropout_prob": "dropout",
      "attention_probs_dropout_prob": "attention_dropout",
      "classifier_dropout": "seq_classif_dropout",
    },
    renames=(
      (r"^encoder\.", "transformer."),
      (r"\.attention\.self\.query\.", ".attention.q_lin."),
      (r"\.attention\.self\.key\.", ".attention.k_lin."),
      (r"\.attention\.self\.value\.", ".attention.v_lin."),
      (r"\.attention\.output\.dense\.", ".attention.out_lin."),
      (r"\.attention\.output\.LayerNorm\.", ".sa_layer_norm."),
      (r"\.intermediate\.dense\.", ".ffn.lin1."),
      (r"\.output\.dense\.", ".ffn.lin2."),
      (r"\.output\.LayerNorm\.", ".output_layer_norm."),
      (r"^classifier\.dense\.", "pre_classifier."),
      (r"^classifier\.out_proj\.", "classifier."),
      (r"^cls\.predictions\.transform\.dense\.", "vocab_transform."),
      (r"^cls\.predictions\.transform\.LayerNorm\.", "vocab_layer_norm."),
      (r"^cls\.predictions\.", "vocab_projector."),
    ),
    has_segments=False,
    has_pooler=False,
    classifier_act="relu",
    dropout_before=False,
    dropout_heads=("rows",),
    has_pairs=False,
  ),
  # `models.plus_tfm` has already translated the names.
  "plus_tfm": Family(
    "PlusTfm",
    defaults={"vocab_size": 25, "max_position_embeddings": 515},
    has_sinusoids=True,
    normalizes_by_root=True,
    has_pooler=False,
  ),
}
