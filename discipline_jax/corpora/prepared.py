"""A prepared corpus: a folder of unmasked instances, their vocabulary, and what is known of both."""

import dataclasses
import json
import pathlib

from discipline_jax.corpora.blocks import PARTS, file_name
from discipline_jax.corpora.records import Records
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary

DESCRIPTION = "corpus.json"


@dataclasses.dataclass(frozen=True)
class Prepared:
  """A prepared corpus.

  Attributes:
    directory: with its files.
    vocabulary: of its tokens.
    description: what `corpus.json` holds: `name`, `pairing`, `lengths`, `draws`, `statistics`.
  """

  directory: pathlib.Path
  vocabulary: Vocabulary
  description: dict

  @classmethod
  def open(cls, directory: pathlib.Path) -> "Prepared":
    """Opens what `prepare.prepare` wrote; raises UserError where it is not whole."""
    try:
      description = json.loads((directory / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
      raise UserError(
        f"not a prepared corpus ({error}), {directory}; delete that folder, and run again"
      ) from None
    return cls(directory, load_vocabulary(directory), description)

  def records(self, part: str, length: int) -> Records:
    """The instances of a part at one of the lengths."""
    draws = range(self.description["draws"] if part == "train" else 1)
    files = [sorted(self.directory.glob(file_name(part, length, draw, "*"))) for draw in draws]
    expected = self.description["statistics"]["parts"][f"{part}_{length}"]["instances"]
    found = Records(files, length=length, vocabulary=self.vocabulary) if all(files) else None
    size = 0 if found is None else found.size
    if found is None or size != expected:
      raise UserError(
        f"the prepared corpus has {size} of its {expected} instances of {part} at {length} tokens, {self.directory};"
        " copy all its files, or delete that folder and run again"
      )
    return found


def summary(prepared: Prepared) -> str:
  """A prepared corpus in a few lines."""
  numbers = prepared.description["statistics"]
  rows = {
    "corpus": f"{prepared.description['name']}: {numbers['documents']:,} documents, {numbers['sentences']:,} sentences,"
    f" {numbers['tokens']:,} tokens of {numbers['types']:,} types; unigram entropy {numbers['entropy']:.3f} nats",
    "vocabulary": f"{len(prepared.vocabulary.tokens):,} tokens, {100 * numbers['unknown']:.2f}% of the text unknown",
  }
  if "mean_distance" in numbers:
    rows["dependency"] = (
      f"mean distance to the next of its kind {numbers['mean_distance']:.2f} tokens"
    )
  for length in prepared.description["lengths"]:
    train, validation = (numbers["parts"][f"{part}_{length}"] for part in PARTS)
    filled = train["tokens"] / (train["instances"] * length)
    long = numbers["parts"][f"long_{length}"]
    rows[f"{length} tokens"] = (
      f"{train['instances']:,} instances in {prepared.description['draws']} draw(s), {validation['instances']:,} held"
      f" out; {100 * filled:.1f}% filled"
      + (f"; {long:,} longer sentences were cut" if long else "")
    )
  rows["folder"] = str(prepared.directory)
  return "\n".join(f"{name:10} {value}" for name, value in rows.items())
