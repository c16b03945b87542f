"""The tasks of a preparation: to list documents, to count their words, to write a block.

Any worker can do any task. A task depends on its arguments and on files that are finished, and leaves a file of its own
in the subfolder `work` last of all. A task whose file is there is done.
"""

import dataclasses
import functools
import pathlib
import tempfile
from typing import Any

import numpy as np

from discipline_jax.corpora.blocks import (
  Block,
  LinesBlock,
  Settings,
  SymbolBlock,
  TextBlock,
  write_block,
)
from discipline_jax.corpora.ranges import Range, RangeReader, Texts, list_documents
from discipline_jax.corpora.sequences import Symbols
from discipline_jax.corpora.source import Counter
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary

WORK = "work"
FREQUENCIES = f"{WORK}/frequencies.npy"  # of the symbols of an artificial corpus
MADE_WITH = "made_with"  # the name of the array with the digest of a block's manifest


@dataclasses.dataclass(frozen=True)
class Job:
  """Holds what all tasks of a preparation share; it can be sent to other processes.

  Attributes:
    folder: where the corpus is written.
    name: the kind of corpus, `corpus.name`.
    settings: the settings of its instances.
    texts: its text; for an artificial corpus the text with the frequencies of its symbols, or None.
    symbols: how sequences are cut into symbols; None for other corpora.
    counter: what counts the words, symbols or tokens of the text; None if they need not be counted.
  """

  folder: pathlib.Path
  name: str
  settings: Settings
  texts: Texts | None
  symbols: Symbols | None
  counter: Counter | None


class Worker:
  """Does tasks of a job, one after the other. Each returns how much it did: documents, or tokens."""

  def __init__(self, job: Job):
    self._job = job

  def list_documents(self, number: int, first: int, last: int) -> int:
    """Lists the documents of the units `first` to `last` - 1 of the text."""
    assert self._job.texts is not None
    return list_documents(self._job.texts, range(first, last), list_file(self._job.folder, number))

  def count(self, number: int, content: Range) -> int:
    """Counts the words, symbols or tokens of a range of the text."""
    path = tally_file(self._job.folder, number)
    if not path.exists():
      assert self._job.counter is not None
      self._job.counter.count(self._reader.read(content)).write(path)
    return content.documents

  def write(self, number: int, content: Range | int, manifest: str) -> int:
    """Writes the files of a block.

    Args:
      number: the block's number.
      content: the documents of the block, or the number of its artificial lines.
      manifest: the digest of the manifest that says so.
    """
    folder, path = self._job.folder, counts_file(self._job.folder, number)
    if path.exists():
      return 0
    with tempfile.TemporaryDirectory(dir=folder / WORK) as part:
      block = self.block(number, content)
      counts = write_block(number, block, self._job.settings, self._vocabulary, pathlib.Path(part))
      for file in pathlib.Path(part).iterdir():
        file.replace(folder / file.name)
    arrays: dict[str, Any] = {**counts, MADE_WITH: np.array(manifest)}
    with whole_file(path) as result:
      np.savez(result, **arrays)
    return int(counts["tokens"].sum())

  def block(self, number: int, content: Range | int) -> Block:
    """Returns a block of the corpus; the arguments are those of `write`."""
    if isinstance(content, int):
      seed = (self._job.settings.seed, number)
      return LinesBlock(self._job.name, content, seed, self._frequencies)
    documents = self._reader.read(content)
    return (
      TextBlock(documents)
      if self._job.symbols is None
      else SymbolBlock(documents, self._job.symbols)
    )

  @functools.cached_property
  def _reader(self) -> RangeReader:
    assert self._job.texts is not None
    return RangeReader(self._job.texts)

  @functools.cached_property
  def _vocabulary(self) -> Vocabulary:
    return load_vocabulary(self._job.folder)

  @functools.cached_property
  def _frequencies(self) -> np.ndarray:
    return np.load(self._job.folder / FREQUENCIES, allow_pickle=False)


def make_folders(folder: pathlib.Path) -> None:
  """Makes the folders that tasks write into."""
  for path in (list_file(folder, 0), tally_file(folder, 0), counts_file(folder, 0)):
    path.parent.mkdir(parents=True, exist_ok=True)


def list_file(folder: pathlib.Path, number: int) -> pathlib.Path:
  """Returns the file with a list of documents."""
  return folder / WORK / "lists" / f"{number:05}"


def tally_file(folder: pathlib.Path, number: int) -> pathlib.Path:
  """Returns the file with the tally of a range of the text."""
  return folder / WORK / "tallies" / f"{number:05}.json"


def counts_file(folder: pathlib.Path, number: int) -> pathlib.Path:
  """Returns the file with what `write_block` counted; if it exists, all files of the block do."""
  return folder / WORK / "blocks" / f"{number:05}.npz"


def read_counts(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Reads what `write_block` counted, and the digest of the block's manifest."""
  with np.load(path, allow_pickle=False) as counts:
    return {name: counts[name] for name in counts.files}
