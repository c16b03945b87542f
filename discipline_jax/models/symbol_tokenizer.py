"""Makes tokenizers whose tokens are the symbols of sequences: letters, words, integers, or overlapping k-mers.

They are pipelines of the library `tokenizers`, so that transformers opens them without this package.
"""

import json
import re
import string
from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers.normalizers import Replace

from discipline_jax.letters import SMILES

# A character that is not a blank for Python's `str.split`; the library's \S differs in four control characters.
_LETTER = r"[^\s\x1c-\x1f]"
# Code points of private use, which stand for letters while k-mers are made, and for an unknown letter or word.
_PRIVATE, _OTHER = 0xF0000, "\U0010fffd"
_INTEGERS = (
  (r"[,\[\]()]", " "),
  (r"(?<!\S)\+(?=\d)", ""),
  (r"(?<=\A|\s|\A-|\s-)0+(?=\d)", ""),
  (r"(?<!\S)-0(?!\S)", "0"),
)


def symbol_tokenizer(
  ids: Mapping[str, int],
  special: Mapping[str, str],
  size: int,
  *,
  kind: str,
  k: int,
  is_upper: bool,
  aliases: Mapping[str, str],
  max_length: int | None,
  add_special_tokens: bool,
) -> Tokenizer:
  """Makes a tokenizer of sequences of symbols; everything else becomes the unknown token.

  Special tokens are not symbols, so the text `[MASK]` in a sequence does not become a mask token.

  Args:
    ids: the id of each symbol and each special token; symbols may have the id of the unknown token.
    special: the special token of each of the roles pad, unk, cls, sep and mask.
    size: number of tokens; those that have no name get one that no text can have.
    kind: how a text writes symbols: `characters`, `words` with blanks between them, `integers` with blanks or commas,
      `smiles`, or `kmers`, each k letters in a row. Blanks between characters, and between the letters of k-mers, are
      left out.
    k: the letters of a k-mer.
    is_upper: whether small letters of ASCII become capitals first.
    aliases: other spellings of single letters, each with the letter that it is read as.
    max_length: largest number of tokens, special ones included; the end of a longer sequence is cut off. None:
      sequences come in pairs, which are cut together by who calls the tokenizer.
    add_special_tokens: whether a sequence gets the special token cls before and sep after it.
  """
  unknown = special["unk"]
  known = {name: i for name, i in ids.items() if i != ids[unknown] or name == unknown}
  tokenizer = Tokenizer(models.WordLevel(_without_holes(known, size), unk_token=unknown))
  steps = [Replace(Regex(pattern), text) for pattern, text in _INTEGERS if kind == "integers"]
  if is_upper:
    steps += [
      Replace(*pair) for pair in zip(string.ascii_lowercase, string.ascii_uppercase, strict=True)
    ]
  steps += [Replace(*pair) for pair in aliases.items()]
  if kind == "kmers":
    symbols = known.keys() - special.values()
    steps += _kmers(k, sorted({letter for symbol in symbols for letter in symbol}))
  names = [special[role] for role in ("pad", "cls", "sep", "mask")]
  steps += _hide(names, kind)
  tokenizer.normalizer = normalizers.Sequence(steps)
  unit = _unit(kind, k)
  if max_length is None:
    tokenizer.pre_tokenizer = _keep(unit)
  else:
    room = max_length - 2 * add_special_tokens
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
      [_keep(rf"\A(?:[\s\x1c-\x1f]*{unit}){{0,{room}}}"), _keep(unit)]
    )
  cls, sep = special["cls"], special["sep"]
  tokenizer.post_processor = processors.TemplateProcessing(
    single=[cls, "$A", sep] if add_special_tokens else ["$A"],
    pair=[cls, "$A", sep, "$B:1", f"{sep}:1"] if max_length is None else None,
    special_tokens=[(token, ids[token]) for token in (cls, sep)],
  )
  return tokenizer


def _unit(kind: str, k: int) -> str:
  """Returns the regular expression of a symbol; see `symbol_tokenizer`."""
  return {
    "characters": _LETTER,
    "kmers": f"{_LETTER}{{{k}}}",
    "smiles": rf"(?:{SMILES}|[\[\]])",
  }.get(kind, f"{_LETTER}+")


def _without_holes(ids: Mapping[str, int], size: int) -> dict[str, int]:
  """Returns the ids with a name for each other one below `size`; it has blanks, so that no text has it as a symbol."""
  free = {*range(size)} - {*ids.values()}
  return {**{f"[unused row {i}]": i for i in free}, **ids}


def _kmers(k: int, letters: Sequence[str]) -> list[Replace]:
  """Returns the steps that turn ACGTA into `ACG CGT GTA TA A`, for k = 3.

  The words that are too short are left out later. A regular expression cannot take a letter twice. So each letter is
  replaced by one of private use, and behind it the letters that follow are inserted, one place at a time.
  """
  private = {letter: chr(_PRIVATE + i) for i, letter in enumerate([*letters, _OTHER])}
  first, last = chr(_PRIVATE), chr(_PRIVATE + len(letters))
  known = "".join(map(re.escape, letters))
  steps = [Replace(Regex(r"[\s\x1c-\x1f]"), ""), Replace(Regex(f"[^{known}]"), _OTHER)]
  steps += [Replace(*pair) for pair in private.items()]
  for place in range(1, k):
    behind = f"(?<=[{first}-{last}][^{first}-{last}]{{{place - 1}}})"
    between = f"(?:[{first}-{last}][^{first}-{last}]*){{{place - 1}}}"
    steps += [
      Replace(Regex(f"{behind}(?={between}{sign})"), letter) for letter, sign in private.items()
    ]
  return steps + [Replace(sign, f" {letter}") for letter, sign in private.items()]


def _hide(names: Iterable[str], kind: str) -> list[Replace]:
  """Returns the steps that replace names in a text by an unknown symbol."""
  if kind == "smiles":  # has no blanks between symbols
    return [Replace(name, _OTHER) for name in names]
  if kind == "characters":
    return [Replace(name, _OTHER) for name in names if len(name) == 1]
  return [Replace(Regex(rf"(?<!\S){re.escape(name)}(?!\S)"), _OTHER) for name in names]


def _keep(pattern: str) -> pre_tokenizers.Split:
  """Returns the step that keeps what matches a pattern, piece by piece, and leaves out the rest."""
  return pre_tokenizers.Split(Regex(pattern), "removed", invert=True)


def lift_limit(tokenizer: Tokenizer) -> None:
  """Takes the step that cuts sequences out of a tokenizer that `symbol_tokenizer` made; leaves others as they are."""
  steps = tokenizer.pre_tokenizer
  if not isinstance(steps, pre_tokenizers.Sequence):
    return
  fields = json.loads(steps.__getstate__())["pretokenizers"]
  if len(fields) == 2 and str(fields[0].get("pattern", {}).get("Regex")).startswith(r"\A(?:"):
    tokenizer.pre_tokenizer = steps[1]


def tokenizer_files(
  tokenizer: Tokenizer, special: Mapping[str, str], *, max_length: int, has_segments: bool
) -> dict[str, str]:
  """Returns the content of `tokenizer.json` and `tokenizer_config.json`, by name.

  transformers takes the tokenizer as it is, whatever the family of the model is.

  Args:
    tokenizer: any tokenizer.
    special: its special token of each of the roles pad, unk, cls, sep and mask.
    max_length: largest number of tokens, special ones included.
    has_segments: whether the model takes `token_type_ids`.
  """
  finds_special = any(token.special for token in tokenizer.get_added_tokens_decoder().values())
  config = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": max_length,
    "model_input_names": [
      "input_ids",
      *(["token_type_ids"] if has_segments else []),
      "attention_mask",
    ],
    "split_special_tokens": not finds_special,  # else transformers would find them in texts
    "clean_up_tokenization_spaces": False,
    **{f"{role}_token": token for role, token in special.items()},
  }
  return {
    "tokenizer.json": tokenizer.to_str(),
    "tokenizer_config.json": json.dumps(config, ensure_ascii=False, indent=2) + "\n",
  }
