"""Finds the family of a checkpoint whose config.json has no `model_type`, as in checkpoints of 2019."""

import functools
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.models.families import FAMILIES
from discipline_jax.models.weights import open_weights


def find_model_type(directory: pathlib.Path, fields: Mapping[str, Any]) -> str:
  """Returns the family that other fields of a config, the weights' names or the tokenizer's files show.

  Args:
    directory: a checkpoint in Hugging Face's format.
    fields: its config.json.

  Raises:
    UserError: nothing shows the family.
  """
  found = _of_classes(fields.get("architectures")) or _of_weights(directory) or _of_fields(fields)
  if found is None:
    found = _of_tokenizer(directory)
  if found is None:
    names = ", ".join(FAMILIES)
    raise UserError(
      f"no model_type, and neither architectures nor weights nor tokenizer show one, {directory}/config.json;"
      f' add "model_type" to it: {names}'
    )
  _say(directory, found)
  return found


@functools.lru_cache
def _say(directory: pathlib.Path, model_type: str) -> None:
  """Says once which family is taken."""
  logging.warning("%s/config.json has no model_type; taken as %s", directory, model_type)


def _of_classes(architectures: Any) -> str | None:
  names = [str(name) for name in architectures] if isinstance(architectures, list) else []
  for name in names:
    for model_type, family in FAMILIES.items():
      if re.match(rf"{family.class_name}(Model|For|LMHead)", name):
        return model_type
  return None


def _of_weights(directory: pathlib.Path) -> str | None:
  """Returns the family whose own names the weights have; None for plain names, which BERT and RoBERTa share."""
  try:
    names = list(open_weights(directory))
  except UserError:  # there are none yet, or a reason that whoever reads them will tell
    return None
  for model_type in FAMILIES:
    if any(name.startswith(f"{model_type}.") for name in names):
      return model_type
  if any("albert_layer_groups" in name for name in names):
    return "albert"
  if any(name.startswith("lm_head.layer_norm") for name in names):
    return "roberta"
  return "bert" if any(name.startswith("cls.predictions") for name in names) else None


def _of_fields(fields: Mapping[str, Any]) -> str | None:
  return "albert" if {"num_hidden_groups", "inner_group_num"} & fields.keys() else None


def _of_tokenizer(directory: pathlib.Path) -> str | None:
  if (directory / "vocab.json").is_file() and (directory / "merges.txt").is_file():
    return "roberta"
  return "bert" if (directory / "vocab.txt").is_file() else None
