"""Reads the texts of a TensorFlow Datasets data set, such as Wikipedia, without TensorFlow."""

import contextlib
import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from discipline_jax.corpora.text import Document
from discipline_jax.errors import UserError

_RECORDS = 50_000  # in a unit


@dataclasses.dataclass(frozen=True)
class TfdsRecords:
  """Reads the records of the split `train` of a data set whose records have a `text`.

  Attributes:
    name: the data set, for example `wikipedia/20230601.en`.
    size: the number of its records.
  """

  name: str
  size: int

  @classmethod
  def open(cls, name: str) -> "TfdsRecords":
    """Counts the records of a data set.

    Raises:
      UserError: TensorFlow Datasets is not installed, or it cannot provide the data set.
    """
    return cls(name, len(_open(name)))

  @property
  def units(self) -> int:
    """The number of units: 50,000 records each, and in the last one those that are left."""
    return -(-self.size // _RECORDS)

  def sizes(self) -> list[int]:
    """Returns a size for each unit, so large that each is read by itself; files give their bytes here."""
    return [1 << 62] * self.units

  def read(self, unit: int, offset: int = 0, line: int = 1) -> Iterator[Document]:
    """Yields the documents of a unit that have text.

    Args:
      unit: the number of the unit.
      offset: the `offset` of a document, to begin with that one.
      line: not used; records have no lines.
    """
    source = _open(self.name)
    for number in range(max(offset, unit * _RECORDS), min((unit + 1) * _RECORDS, self.size)):
      paragraphs = (one.strip() for one in source[number]["text"].decode("utf-8").splitlines())
      document = Document(f"{self.name}:{number}", tuple(one for one in paragraphs if one), number)
      if document.paragraphs:
        yield document


def _open(name: str) -> Sequence[Any]:
  """Opens a data set, and reads its first record."""
  try:
    import tensorflow_datasets as tfds  # late: an optional package that takes seconds to import
  except ImportError as error:
    raise UserError(
      f"corpus.name = 'tfds' needs TensorFlow Datasets ({error}); pip install 'discipline-jax[tfds]', or give the"
      " folder of a prepared corpus as --config.corpus.path"
    ) from None
  try:
    # Without TensorFlow, only data sets whose modules are imported are known.
    module = f"tensorflow_datasets.text.{name.partition('/')[0]}"
    with contextlib.suppress(ModuleNotFoundError):
      importlib.import_module(module)
    source = tfds.data_source(name, split="train")
    source[0]["text"].decode("utf-8")  # a data set without a `text` fails here
  except Exception as error:  # the library, its downloads and the system raise many kinds
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    raise UserError(
      f"TensorFlow Datasets cannot provide the texts of corpus.path = {name} ({type(error).__name__}: {reason});"
      " prepare the data set with that library's own tools (for Wikipedia see docs/pretraining.md), or set"
      " --config.corpus.name=text and --config.corpus.path to a folder of text"
    ) from None
  return source
