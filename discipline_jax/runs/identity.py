"""Decides whether two configs are of the same run: whether all fields that change results are equal.

Fields that an older version did not have count with their default, and fields that this version does not have count as
absent, so that a workdir stays the same run when the package changes.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from flax import traverse_util
from ml_collections import ConfigDict

from discipline_jax import modes

# Fields that change no result but by rounding: places, how often something is written, what other modes read from a
# config, and the mesh, on which a run may continue that began on another one.
_IRRELEVANT = (
  "data_dir",
  "cache_dir",
  "train.log_every_steps",
  "checkpoint.every_steps",
  "predict.output",
  "predict.format",
  "predict.keep_columns",
  "predict.replicas",
  "embed.output",
  "embed.pooling",
  "embed.layer",
  "embed.keep_columns",
  "export.output",
  "inspect.chips",
  "inspect.output",
  "mesh.data",
  "mesh.fsdp",
  "mesh.tensor",
)


def identity(config: ConfigDict | Mapping[str, Any]) -> dict[str, Any]:
  """Returns the fields of a config that change results, by dotted name, with defaults filled in.

  Args:
    config: a config of fine-tuning or pre-training, or the content of a `config.json`.
  """
  if isinstance(config, ConfigDict):
    config = json.loads(config.to_json_best_effort())
  fields = _flat(config)
  known = _flat(json.loads(modes.of_mode(str(fields.get("mode"))).to_json_best_effort()))
  own = {
    name: fields.get(name, default) for name, default in known.items() if name not in _IRRELEVANT
  }
  if (own.get("task.name"), own.get("task.kind")) == ("custom", "classification"):
    own.pop("task.standardise")  # classes have no scale
  if "task.long" in own:
    own["task.long"] = own["task.long"] or "cut"  # older versions had no other way to say it
  return own


def digest(config: ConfigDict | Mapping[str, Any]) -> str:
  """Returns the identity of a run as one short text."""
  fields = json.dumps(identity(config), sort_keys=True)
  return hashlib.sha256(fields.encode()).hexdigest()[:16]


def first_difference(
  ours: ConfigDict | Mapping[str, Any], theirs: ConfigDict | Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
  """Returns the name and both values of the first field that differs, or None if they are the same run."""
  modes = [dict(config).get("mode") for config in (ours, theirs)]
  if modes[0] != modes[1]:
    return "mode", modes[0], modes[1]
  own, other = identity(ours), identity(theirs)
  for name in sorted({*own, *other}):
    if own.get(name) != other.get(name):
      return name, own.get(name), other.get(name)
  return None


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
  return traverse_util.flatten_dict(dict(tree), sep=".")
