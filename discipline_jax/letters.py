"""Changes the case of letters, finds letters that may be meant to be the same, and knows the symbols of SMILES."""

import string
from collections.abc import Collection

# An atom, a bond, a branch or a ring closure of SMILES (OpenSMILES 1.0): an atom in brackets is one symbol.
SMILES = r"\[[^\[\]\s]+\]|Br|Cl|%[0-9]{2}|[^\[\]\s]"
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def upper(sequence: str) -> str:
  """Returns the text with ASCII letters in upper case: `str.upper` would turn one sharp s into two S."""
  return sequence.translate(_UPPER)


def both_cases(symbols: Collection[str]) -> list[str]:
  """Returns the letters that a biological alphabet has in both cases, as soft-masked genomes have.

  In other alphabets, such as that of SMILES, the case of a letter has a meaning.
  """
  letters = {one for symbol in symbols for one in symbol}
  lower = {one for one in letters if one != one.upper()}
  is_biological = all(one.isascii() and (one.isalpha() or one in "*-.") for one in letters)
  return sorted(lower) if is_biological and lower and {*map(upper, lower)} <= letters else []


def thymine_and_uracil(symbols: Collection[str]) -> bool:
  """Returns whether nucleic acids have both T and U, the same base in DNA and in RNA."""
  letters = {one.upper() for symbol in symbols for one in symbol}
  return {"T", "U"} <= letters <= set("ACGTUN-")


def look_alikes(symbols: Collection[str]) -> list[str]:
  """Returns the letters outside ASCII beside letters of ASCII: Cyrillic, Greek and full-width ones look the same."""
  letters = {one for symbol in symbols for one in symbol if one.isalpha()}
  others = sorted(one for one in letters if not one.isascii())
  return others if len(others) < len(letters) else []
