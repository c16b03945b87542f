"""Decides which labels name a class, which of them name the same one, and in which order they are."""

import collections
import math
import re
import unicodedata
from collections.abc import Collection, Hashable, Iterable
from decimal import Decimal

from absl import logging

from discipline_jax.errors import UserError

# Missing values as pandas, R, SAS, VCF and Weka write them, and the errors of spreadsheets.
_MISSING = frozenset(
  """NA|na|N/A|n/a|n.a.|N.A.|NaN|nan|NAN|Nan|-NaN|-nan|None|NULL|null|Null|<NA>|<na>|<N/A>|#N/A|#NA|#N/A N/A|?|-|--|.|
  1.#IND|-1.#IND|1.#QNAN|-1.#QNAN|#VALUE!|#REF!|#DIV/0!|#NAME?|#NUM!|#NULL!""".replace(
    "\n  ", ""
  ).split("|")
)
# Names of a class in some tables, and of no class in others.
_DOUBTFUL = frozenset(
  (
    "none",
    "infinity",
    "unknown",
    "missing",
    "undefined",
    "unlabelled",
    "unlabeled",
    "not available",
  )
)
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(
  rf"\d{{1,2}}-({_MONTHS})(-\d{{2,4}})?|({_MONTHS})-\d{{1,4}}|\d{{4}}-\d\d-\d\d( 00:00:00)?"
  r"|\d{1,2}/\d{1,2}/\d{2,4}",
  re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_WHOLE = re.compile(r"([+-]?(?:0|[1-9][0-9]*))\.0*")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")


def missing(labels: Iterable[str | None]) -> dict[str, str]:
  """Returns the labels that stand for a missing one, each with what is wrong with it.

  If `+` is a label, `-` is a class, too.
  """
  present = {(label or "").strip() for label in labels}
  wrong = present & _MISSING
  if "+" in present:
    wrong -= {"-"}
  return dict.fromkeys(wrong, "means that there is none")


def refused(labels: Iterable[str | None]) -> dict[str, str]:
  """Returns the labels that name no class, each with what is wrong with it.

  They are the missing ones, and dates if there are other labels: spreadsheets turn names such as MARCH1, and ratios,
  into dates.
  """
  present = {(label or "").strip() for label in labels}
  wrong = missing(present)
  dates = {label for label in present if _DATE.fullmatch(label)}
  if dates != present - wrong.keys() - {""}:
    wrong |= dict.fromkeys(dates, "is a date, which spreadsheets make of other names")
  return wrong


def class_name(label: str) -> str:
  """Returns the name of a label's class: the label, but `0` for `0.0`, as in JSON, which has one kind of number."""
  whole = _WHOLE.fullmatch(label)
  return str(int(whole[1])) if whole and len(whole[1]) < 4000 else label


def class_key(name: str) -> Hashable:
  """Returns what equal names have in common: a number, or the name.

  `01` and `1` are equal, because programs that read a column as numbers drop leading zeros; so are `1.10` and `1.1`.
  """
  if not _NUMBER.fullmatch(name) or len(name) > 4000:  # Python reads no longer integers
    return name
  if name.lstrip("+-").isdigit():
    return int(name)
  value = float(name)
  return value if math.isfinite(value) else Decimal(name)


def class_names(labels: Iterable[str], what: str = "classes") -> dict[Hashable, str]:
  """Returns the name of each class by its key, and logs what may be a mistake in the names.

  A class has the name that its labels have. If they are several spellings of a number, it has the plainest of them.

  Args:
    labels: labels of all rows.
    what: what messages call the things that have these names.
  """
  spellings = collections.defaultdict(set)
  for name in set(labels):
    spellings[class_key(name)].add(name)
  names = {key: min(own, key=_plainness) for key, own in spellings.items()}
  for key, own in spellings.items():
    if len(own) > 1:
      logging.warning(
        "the %s %s are the same number, and one, %r; if they are codes, add a letter to each",
        what,
        _listed(own),
        names[key],
      )
  alike = collections.defaultdict(set)
  for name in names.values():
    alike[_outline(name)].add(name)
  for own in alike.values():
    if len(own) > 1:
      logging.warning(
        "the %s %s differ only in case, blanks or signs; if they are one, write them alike",
        what,
        _listed(own),
      )
  mixed = [name for name in names.values() if _mixes_alphabets(name)]
  if mixed:
    logging.warning(
      "the %s %s mix Latin letters with Cyrillic ones that look the same; correct them if they are not meant",
      what,
      ", ".join(ascii(name) for name in sorted(mixed)[:10]),
    )
  words = {str(name).casefold() for name in names.values()}
  if words & {"true", "false"} and words & {"0", "1", "yes", "no"}:
    logging.warning(
      "the %s %s may be two spellings of yes and no; if they are, write them alike",
      what,
      _listed(names.values()),
    )
  if names and all(_DATE.fullmatch(name) for name in names.values()):
    logging.warning(
      "all classes are dates, such as %s; if a spreadsheet made them of other names, correct them",
      _listed(names.values()),
    )
  for name in names.values():
    if name.lower() in _DOUBTFUL:
      logging.warning(
        "the label %r counts as a class; if it stands for a missing label, leave its rows out", name
      )
  return names


def _plainness(number: str) -> tuple:
  """Orders the spellings of a number: those without an exponent first, then the shortest."""
  return "e" in number.lower(), len(number), number


def _mixes_alphabets(name: str) -> bool:
  scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
  return {"LATIN", "CYRILLIC"} <= scripts


def _outline(name: str) -> str:
  """Returns a name without what is easily written in several ways.

  This removes case, blanks, hyphens, invisible characters, quotes around it, and the typographic minus sign.
  """
  name = name.strip("'\"\u2018\u2019\u201c\u201d`").replace("\u2212", "-")
  if _NUMBER.fullmatch(name):
    return name
  name = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
  name = re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", name).casefold()
  return re.sub(r"(?<=[^\W\d]) (?=\d)", "", name)  # Fam3, fam 3


def _listed(names: Collection[str]) -> str:
  composed = {unicodedata.normalize("NFC", name) for name in names}
  show = repr if len(composed) == len(names) else ascii  # else they look the same
  return ", ".join(map(show, sorted(names)[:10]))


def sort_labels(values: Iterable[str]) -> list[str]:
  """Sorts names: as numbers if all of them are integers, else as text."""
  ordered = sorted(values)  # first, so that 1 and 01 have an order
  try:
    return sorted(ordered, key=int)
  except ValueError:
    return ordered


def present(text: str, place: str) -> str:
  """Returns a label without blanks around it; raises UserError, with `place`, if there is none."""
  label = text.strip()
  if not label:
    raise UserError(f"no label, {place}; every row needs one")
  refuse_control(label, place)
  return label


def refuse_control(label: str, place: str) -> None:
  """Raises UserError if a label has a control character."""
  control = _CONTROL.search(label)
  if control:
    raise UserError(f"the control character {control[0]!r} in a label, {place}; correct the line")
