"""Changes the case of letters, and finds letters that may be meant to be the same."""

import string
from collections.abc import Collection

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
