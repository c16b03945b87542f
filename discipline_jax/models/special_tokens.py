"""Finds the special tokens of a tokenizer, whatever their names are."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

from discipline_jax.errors import UserError

ROLES = ("pad", "unk", "cls", "sep", "mask")
# The names of these five special tokens in the vocabularies of families. PLUS-TFM has no [UNK], so X, the unknown amino
# acid, takes its place.
NAMES = (
  ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
  ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
  ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
  ("[PAD]", "X", "[CLS]", "[SEP]", "[MASK]"),
)
# Other usual names, without brackets and in lower case.
_USUAL = {
  "pad": ("pad", "padding"),
  "unk": ("unk", "unknown"),
  "cls": ("cls", "s", "bos", "start"),
  "sep": ("sep", "/s", "eos", "end"),
  "mask": ("mask",),
}
# Files of a checkpoint that name special tokens; the later one wins.
_FILES = ("special_tokens_map.json", "tokenizer_config.json")
# The roles that tokenizers of other architectures name instead.
_INSTEAD = {"cls": "bos", "sep": "eos"}


def find_special_tokens(
  ids: Mapping[str, int], tokenizer: Tokenizer | None, directory: pathlib.Path | None, source: str
) -> dict[str, str]:
  """Returns the special token of each of `ROLES`.

  A role is looked for in the tokenizer's JSON files, then among the names of the families, then in the steps of the
  tokenizer, and at last among other usual names in brackets.

  Args:
    ids: the id of each token of the vocabulary.
    tokenizer: the tokenizer, or None for a list of symbols.
    directory: where the JSON files are; None if there are none.
    source: the file or folder of the vocabulary, for messages.

  Raises:
    UserError: a role has no token, or the padding token has a second role.
  """
  named = {} if directory is None else _named_in_files(directory)
  found = {role: token for role, token in named.items() if token in ids}
  family = next((names for names in NAMES if ids.keys() >= set(names)), None)
  if family is not None:
    found = dict(zip(ROLES, family, strict=True)) | found
  if len(found) < len(ROLES):
    steps = {} if tokenizer is None else _named_in_steps(tokenizer)
    found = {role: token for role, token in steps.items() if token in ids} | found
  if len(found) < len(ROLES):
    found = _usually_named(ids) | found
  lost = [role for role in ROLES if role not in found]
  if lost:
    fields = ", ".join(f'"{role}_token"' for role in lost)
    raise UserError(
      f"no special tokens such as {' '.join(NAMES[0])} for the roles {' '.join(lost)}, {source}; name the"
      f" vocabulary's own in tokenizer_config.json ({fields}), or give the model's own tokenizer"
    )
  other = next((role for role in ROLES[1:] if found[role] == found["pad"]), None)
  if other is not None:
    raise UserError(
      f"{found['pad']} is both pad_token and {other}_token, {source}; name another token of the vocabulary in"
      " tokenizer_config.json"
    )
  return {role: found[role] for role in ROLES}


def _named_in_files(directory: pathlib.Path) -> dict[str, str]:
  """Returns the tokens that the JSON files of a tokenizer name; a file that cannot be read names none."""
  fields: dict[str, Any] = {}
  for name in _FILES:
    try:
      content = json.loads((directory / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
      continue
    if isinstance(content, dict):
      fields |= content
  found = {}
  for role in ROLES:
    for name in (role, _INSTEAD.get(role, role)):
      value = fields.get(f"{name}_token")
      token = value.get("content") if isinstance(value, dict) else value
      if isinstance(token, str):
        found[role] = token
        break
  return found


def _named_in_steps(tokenizer: Tokenizer) -> dict[str, str]:
  """Returns the tokens that a tokenizer adds to a text, and its token for unknown words."""
  steps = json.loads(tokenizer.to_str())
  found = {}
  if isinstance(steps["model"].get("unk_token"), str):
    found["unk"] = steps["model"]["unk_token"]
  processor = steps.get("post_processor") or {}
  pair = {role: processor[role][0] for role in ("cls", "sep") if processor.get(role)}
  if pair:  # the processors of BERT and RoBERTa
    return found | pair
  added = [
    part["SpecialToken"]["id"] for part in processor.get("single", ()) if "SpecialToken" in part
  ]
  return found | (dict(zip(("cls", "sep"), added, strict=True)) if len(added) == 2 else {})


def _usually_named(ids: Mapping[str, int]) -> dict[str, str]:
  """Returns the tokens in brackets that have a usual name; of several, the one whose name comes first in `_USUAL`."""
  plain = {
    token.strip("[]<>|").lower(): token
    for token in sorted(ids, key=ids.__getitem__, reverse=True)
    if len(token) > 2 and token[0] in "[<" and token[-1] in "]>"
  }
  found = {}
  for role, names in _USUAL.items():
    for name in names:
      if name in plain:
        found[role] = plain[name]
        break
  return found
