"""Tallies: how often words, symbols or tokens occur in some documents, which add up over the blocks of a corpus."""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping

from discipline_jax.files.whole_files import whole_file


@dataclasses.dataclass(frozen=True)
class Tally:
  """Counts of some documents.

  Attributes:
    counts: how often each word, symbol or token id occurs.
    letters: the characters that can follow another one within a word; only where words are counted.
  """

  counts: Mapping[str, int]
  letters: frozenset[str] = frozenset()

  @classmethod
  def read(cls, path: pathlib.Path) -> "Tally":
    """Reads what `write` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return cls(content["counts"], frozenset(content["letters"]))

  def write(self, path: pathlib.Path) -> None:
    """Writes the tally as JSON, in whole or not at all."""
    with whole_file(path, text=True) as file:
      json.dump(
        {"letters": sorted(self.letters), "counts": dict(self.counts)}, file, ensure_ascii=False
      )


def total(tallies: Iterable[Tally]) -> Tally:
  """Adds up tallies, which are read one after the other."""
  counts: collections.Counter[str] = collections.Counter()
  letters: set[str] = set()
  for one in tallies:
    counts.update(one.counts)
    letters |= one.letters
  return Tally(counts, frozenset(letters))
