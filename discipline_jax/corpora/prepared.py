"""Prepared corpora: folders with unmasked instances, their vocabulary, and a description."""

import dataclasses
import json
import pathlib
import types
from typing import Any

from discipline_jax.corpora.blocks import PARTS, file_name
from discipline_jax.corpora.records import Records, record_dtype
from discipline_jax.errors import UserError
from discipline_jax.files.copies import original
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary

DESCRIPTION = "corpus.json"
# So many instances are checked for next sentences, which half should have. Fewer than 20 may have none by chance.
_PAIRS, _FEW_PAIRS = 1000, 20


@dataclasses.dataclass(frozen=True)
class Prepared:
  """A prepared corpus on disk.

  Attributes:
    directory: the folder with its files.
    vocabulary: the vocabulary of its token ids.
    description: the content of `corpus.json`: `name`, `pairing`, `lengths`, `draws` (the dupe factor), `statistics`.
  """

  directory: pathlib.Path
  vocabulary: Vocabulary
  description: dict

  @classmethod
  def open(cls, directory: pathlib.Path) -> "Prepared":
    """Opens a folder that `prepare.prepare` wrote.

    Raises:
      UserError: the description or the vocabulary cannot be read.
    """
    try:
      description = json.loads((directory / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
      raise UserError(
        f"not a prepared corpus ({error}), {directory}; delete this folder and prepare the corpus again"
      ) from None
    return cls(directory, load_vocabulary(directory), description)

  def records(self, part: str, length: int) -> Records:
    """Opens the instances of a part, `train` or `validation`, at one of the lengths.

    Raises:
      UserError: files are missing or cannot be read.
    """
    draws = range(self.description["draws"] if part == "train" else 1)
    files = [sorted(self.directory.glob(file_name(part, length, draw, "*"))) for draw in draws]
    expected = self.description["statistics"]["parts"][f"{part}_{length}"]["instances"]
    order = self.description.get("order")
    found = (
      Records(files, length=length, vocabulary=self.vocabulary, order=order) if all(files) else None
    )
    size = 0 if found is None else found.size
    if found is None or size != expected:
      raise UserError(
        f"the prepared corpus has {size} of its {expected} instances of {part} at {length} tokens, {self.directory};"
        " copy all its files, or delete this folder and prepare the corpus again"
      )
    return found


class Unprepared(Prepared):
  """Stands for a corpus of which only the vocabulary is known, for a program that is compiled and not run."""

  def records(self, part: str, length: int) -> Any:
    """Returns the dtype that the records would have."""
    return types.SimpleNamespace(dtype=record_dtype(len(self.vocabulary.tokens)))


def check_pairs(prepared: Prepared) -> None:
  """Raises UserError if no second segment follows its first one, so that a model learns nothing from pairs."""
  description = prepared.description
  if description["pairing"] != "next_sentence":
    return
  labels = prepared.records("train", description["lengths"][0]).first(_PAIRS)["label"]
  if len(labels) > _FEW_PAIRS and labels.all():
    raise UserError(
      "no document of the corpus has two sentences, so none follows another; set --config.objective.kind=mlm, or put"
      " the sentences of a document below each other and an empty line behind it"
    )


def summary(prepared: Prepared) -> dict[str, str]:
  """Returns lines of text that describe a prepared corpus, by name, for `command_line.format_rows`."""
  numbers = prepared.description["statistics"]
  rows = {
    "corpus": f"{prepared.description['name']}: {numbers['documents']:,} documents, {numbers['sentences']:,} sentences,"
    f" {numbers['tokens']:,} tokens of {numbers['types']:,} types; unigram entropy {numbers['entropy']:.3f} nats",
    "vocabulary": f"{len(prepared.vocabulary.tokens):,} tokens, {100 * numbers['unknown']:.2f}% of the text is unknown",
  }
  if "mean_distance" in numbers:
    rows["dependency"] = (
      f"mean distance from a token to the next one of its type {numbers['mean_distance']:.2f} tokens"
    )
  for length in prepared.description["lengths"]:
    train, validation = (numbers["parts"][f"{part}_{length}"] for part in PARTS)
    filled = train["tokens"] / (train["instances"] * length)
    long = numbers["parts"][f"long_{length}"]
    rows[f"{length} tokens"] = (
      f"{train['instances']:,} instances (dupe factor {prepared.description['draws']}), {validation['instances']:,}"
      f" held-out; rows are {100 * filled:.1f}% full"
      + (f"; {long:,} longer sentences were cut" if long else "")
    )
  rows["folder"] = original(str(prepared.directory))
  return rows
