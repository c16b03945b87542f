"""Splits sequences into symbols, and finds symbols that are written in an unexpected way."""

import ast
import collections
import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.letters import SMILES, upper
from discipline_jax.tasks.readers.tables import json_text

SYMBOLS = ("characters", "words", "integers", "kmers", "smiles")
TEXT = "text"  # of `task.symbols` in mode embed: whole rows for the tokenizer of a checkpoint
CASES = ("as_is", "upper")
# What other programs write for a missing cell; no real sequence of letters looks like these.
_MISSING = frozenset(
  ("nan", "NaN", "None", "null", "<NA>", "N/A", "n/a", "#N/A", "#REF!", "#VALUE!", "#NAME?")
)
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
# A list: a bracket, then a number or a quote, and a bracket at the end; or empty brackets.
_LIST = re.compile(r"""\s*([\[(]\s*[\])]|[\[(][\s\[(]*(['"]|[-+]?\.?[0-9]).*[\])])\s*""", re.DOTALL)
_NUMBERS = re.compile(r"\s*\[\s*([-+]?[0-9]+\.?\s+)*[-+]?[0-9]+\.?\s*\]\s*")  # NumPy writes blanks
_INTEGER = re.compile(r"[-+]?[0-9]+")
_NO_COMMA = re.compile(r"""(['"])\s+['"]""")


@dataclasses.dataclass(frozen=True)
class Spelling:
  """Says how a table writes sequences.

  Attributes:
    kind: one of SYMBOLS, see `defaults`.
    k: letters of a k-mer.
    case: one of CASES.
    has_blanks: whether blanks stand between the single letters of a sequence.
  """

  kind: str
  k: int = 3
  case: str = "as_is"
  has_blanks: bool = False

  def split(self, sequence: object, place: str) -> Sequence[str]:
    """Returns the symbols of a sequence.

    They are characters, words between blanks, integers between blanks or commas, overlapping k-mers, or what SMILES
    has (atoms, bonds, branches, ring closures). A list is taken as it is, also if a cell has the text of one.

    Args:
      sequence: a value of the sequence column.
      place: `file:line`, for messages.

    Raises:
      UserError: not a sequence of such symbols.
    """
    if isinstance(sequence, str):
      sequence = _as_list(sequence, place)
    if isinstance(sequence, list):
      symbols: Sequence[str] = self._of_list(sequence, place)
    elif not isinstance(sequence, str):
      raise UserError(
        f"the sequence {str(sequence)[:40]!r} is neither text nor a list, {place}; correct the line"
      )
    elif self.kind in ("characters", "kmers", "smiles"):
      if sequence.strip() in _MISSING:
        raise UserError(
          f"the sequence {sequence.strip()!r} stands for a missing one, {place}; give one, or leave the row out"
        )
      symbols = self._letters(sequence, place)
    else:
      symbols = (sequence.replace(",", " ") if self.kind == "integers" else sequence).split()
    control = _CONTROL.search("".join(symbols))
    if control:
      raise UserError(
        f"the control character {control[0]!r} in a symbol, {place}; correct the line"
      )
    if not symbols:
      raise UserError(f"empty sequence, {place}; every row needs one")
    if self.kind == "smiles" and isinstance(symbols, str):
      symbols = _smiles(symbols, place)
    if self.case == "upper":
      symbols = upper(symbols) if isinstance(symbols, str) else [upper(one) for one in symbols]
    if self.kind == "kmers" and isinstance(symbols, str):
      symbols = self._kmers(symbols, place)
    return _integers(symbols, place) if self.kind == "integers" else symbols

  def _of_list(self, values: list, place: str) -> Sequence[str]:
    others = [s for s in values if not isinstance(s, str | int | float) or s == ""]
    if others:
      raise UserError(
        f"{str(others[0])[:40]!r} in a list of symbols is neither text nor a number, {place}; correct the line"
      )
    symbols = [json_text(symbol) for symbol in values]
    if self.kind != "kmers":
      return symbols
    if all(len(symbol) == 1 for symbol in symbols):
      return "".join(symbols)
    wrong = next((symbol for symbol in symbols if len(symbol) != self.k), None)
    if wrong is not None:
      raise UserError(
        f"{wrong[:40]!r} in a list of k-mers does not have task.k = {self.k} letters, {place}; correct the line"
      )
    return symbols

  def _letters(self, sequence: str, place: str) -> str:
    letters = sequence.strip().replace("\r", "").replace("\n", "")  # as FASTA has line ends
    if self.has_blanks:
      letters = letters.replace(" ", "")
    wrong = next((c for c in letters if not c.isprintable() or c.isspace()), None)
    if wrong is not None and wrong.isspace() and self.kind == "smiles":
      raise UserError(
        f"the character {wrong!r} in a SMILES, {place}; correct the line or, if it is the name of a molecule, set"
        " --config.task.sequence_column to the column of the SMILES"
      )
    if wrong is not None and wrong.isspace():
      raise UserError(
        f"the character {wrong!r} in a sequence of {self.kind}, {place}; take the blanks out if each letter is a"
        " symbol, or set task.symbols=words (or integers) if what stands between blanks is one (mode embed with a"
        f" checkpoint takes sentences with task.symbols={TEXT})"
      )
    if wrong is not None:
      raise UserError(
        f"the character {wrong!r} in a sequence of {self.kind}, {place}; correct the line"
      )
    return letters

  def _kmers(self, letters: str, place: str) -> list[str]:
    if len(letters) < self.k:
      raise UserError(
        f"a sequence of {len(letters)} letters is shorter than task.k = {self.k}, {place}; leave the row out, or"
        " set a smaller task.k"
      )
    return [letters[i : i + self.k] for i in range(len(letters) - self.k + 1)]


def _smiles(text: str, place: str) -> list[str]:
  symbols = re.findall(SMILES, text)
  if sum(map(len, symbols)) < len(text):
    raise UserError(
      f"a bracket without its partner, or nothing in brackets, in the SMILES {text[:40]!r}, {place}; correct the line"
    )
  return symbols


def _as_list(text: str, place: str) -> object:
  """Returns the list that a cell such as `[60, 62]` or `['A', 'C']` shows; returns any other text unchanged.

  A text in brackets may also be a molecule, as `[2H]O[2H]` is.
  """
  if not _LIST.fullmatch(text):
    return text
  if _NUMBERS.fullmatch(text):
    return [number.rstrip(".") for number in text.strip().strip("[]").split()]
  if _NO_COMMA.search(text):  # Python would join the texts
    raise UserError(f"a list without commas, {place}; write commas between its elements")
  try:
    values = ast.literal_eval(text.strip())
  except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
    if "," in text:
      raise UserError(
        f"a list that cannot be read, {text.strip()[:40]!r}, {place}; write numbers, or texts in quotes, with commas"
        " between them"
      ) from None
    return text
  if isinstance(values, list | tuple):
    return list(values)
  return text  # `(5)` and the like


def _integers(symbols: Sequence[str], place: str) -> list[str]:
  wrong = next((one for one in symbols if not _INTEGER.fullmatch(one)), None)
  if wrong is not None:  # Python reads 60_61 as one number
    raise UserError(
      f"{wrong[:40]!r} is not an integer, {place}; correct the line, or set task.symbols=words"
    )
  return [str(int(symbol)) for symbol in symbols]


def letters_with_blanks(sequences: Iterable[object]) -> tuple[bool, list[str]]:
  """Returns whether the blanks in sequences separate single letters, and if so, the words of several letters.

  Most of the words between blanks must be single letters. The others lack a blank.
  """
  words = collections.Counter(
    word
    for sequence in sequences
    if isinstance(sequence, str) and " " in sequence.strip()
    for word in sequence.split()
  )
  several = [word for word in words if len(word) > 1]
  return 2 * sum(words[word] for word in several) < words.total(), several


def joined_words(counts: Mapping[str, int]) -> list[str]:
  """Returns the words that seem to be several words without blanks between them.

  They are made of other words, and these have a common length, which nearly all words have.

  Args:
    counts: how often each word occurs.
  """
  lengths: collections.Counter[int] = collections.Counter()
  for word, count in counts.items():
    lengths[len(word)] += count
  length, number = lengths.most_common(1)[0]
  if number < 0.8 * lengths.total():
    return []
  return sorted(
    word
    for word in counts
    if len(word) > length
    and len(word) % length == 0
    and not word.isdigit()
    and all(word[i : i + length] in counts for i in range(0, len(word), length))
  )


def split_atoms(counts: Mapping[str, int], sequences: Iterable[Sequence[str]]) -> list[str]:
  """Returns the atoms of two letters that characters split in SMILES: `l` and `r` stand only in Cl and Br there."""
  if not counts.keys() & set("()[]=#"):
    return []
  text = "\n".join("".join(sequence) for sequence in sequences)
  return [
    atom for atom in ("Cl", "Br") if counts.get(atom[1], 0) and text.count(atom) == counts[atom[1]]
  ]


def check_known(
  rows: Sequence[tuple[str, Sequence[str]]], known: Collection[str], remedies: Mapping[str, str]
) -> None:
  """Raises UserError if most symbols are not known: outputs for them say nothing. If fewer are, and letter case is the
  reason, a warning says so.

  Args:
    rows: the place (`file:line`) and the symbols of each row.
    known: the symbols that training saw.
    remedies: what helps if the symbols are known in upper case (`upper`), in lower case (`lower`), in a mixture of both
      (`mixed`), and else (`other`).
  """
  total, first = 0, None
  unknown: collections.Counter[str] = collections.Counter()
  for place, symbols in rows:
    others = {
      symbol: count for symbol, count in collections.Counter(symbols).items() if symbol not in known
    }
    total += len(symbols)
    first = first or (place if others else None)
    unknown.update(others)
  judge_unknown(unknown, total, first, known, remedies)


def judge_unknown(
  unknown: collections.Counter[str],
  total: int,
  place: str | None,
  known: Collection[str],
  remedies: Mapping[str, str],
  what: str = "symbols do not occur in training",
) -> None:
  """Raises UserError or warns as `check_known` does, if the symbols are counted already.

  Args:
    unknown: how often each unknown symbol occurs.
    total: number of all symbols, known and unknown.
    place: the first place of an unknown one.
    known, remedies: see `check_known`.
    what: what they are, and what is wrong with them.
  """
  reason = _case_reason(unknown, known, remedies)
  shown = " ".join(symbol for symbol, _ in unknown.most_common(20))
  message = (
    f"{unknown.total()} of {total} {what} ({shown[:60]}), {place}; {reason or remedies['other']}"
  )
  if 2 * unknown.total() > total:
    raise UserError(message)
  if reason:
    logging.warning("%s", message)


def _case_reason(
  unknown: collections.Counter[str], known: Collection[str], remedies: Mapping[str, str]
) -> str:
  """Returns the reason and the remedy if most of the unknown symbols are known in another case, else an empty text."""
  for case, other, change in (("upper", "lower", upper), ("lower", "upper", str.lower)):
    if 2 * sum(count for one, count in unknown.items() if change(one) in known) > unknown.total():
      return f"they are in {other} case, but {case} case in training: {remedies[case]}"
  folded = {*map(upper, known)}
  if 2 * sum(count for one, count in unknown.items() if upper(one) in folded) > unknown.total():
    return f"they differ in case from the symbols of training: {remedies['mixed']}"
  return ""
