"""Instances on disk, as ArrayRecord files, and batches of them.

A record is unsigned integers of 16 bits, or of 32 where the vocabulary needs them: where the second segment begins (or
the row ends), the label, and the tokens with the special ones.
"""

import contextlib
import pathlib
import resource
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int32, UInt

from discipline_jax.corpora.instances import Instance
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.tokenizer import Vocabulary

_HEADER = 2  # numbers before the tokens
_ORDER = 3  # a stream of the seed of its own
_PREFETCHED = 8  # batches that are read ahead

# Names and arrays of a batch: `ids` [rows, length], `boundary` [rows], `label` [rows].
Rows = dict[str, np.ndarray]


def record_dtype(vocab_size: int) -> np.dtype:
  """The integers of records."""
  return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


def write_records(
  path: pathlib.Path, instances: Iterable[Instance], vocabulary: Vocabulary
) -> tuple[int, int]:
  """Writes a file; returns how many instances there are, and how many tokens, special ones counted.

  Raises:
    RunFailed: the file cannot be written.
  """
  from array_record.python.array_record_module import ArrayRecordWriter

  dtype = record_dtype(len(vocabulary.tokens))
  cls, sep = [vocabulary.cls_id], [vocabulary.sep_id]
  count = tokens = 0
  try:
    writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")  # each is read by itself
    for one in instances:
      boundary = len(one.first) + 2
      parts: list[np.typing.ArrayLike] = [[boundary, one.label], cls, one.first, sep]
      if one.second is not None:
        parts += [one.second, sep]
      record = np.concatenate(parts).astype(dtype)
      writer.write(record.tobytes())
      count += 1
      tokens += len(record) - _HEADER
    writer.close()
  except RuntimeError as error:  # what the library makes of a full disk
    raise RunFailed(
      f"the corpus cannot be written ({error}); free space, or set another --config.cache_dir"
    ) from None
  return count, tokens


def _allow_many_files() -> None:
  """As many as the system lets a process have open."""
  _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
  with contextlib.suppress(ValueError, OSError):  # some systems name a limit that they do not grant
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Records:
  """The instances of a part of a corpus, in one or several draws, at one length.

  Attributes:
    size: instances of all draws.
    dtype: of the ids.
  """

  def __init__(
    self, draws: Sequence[Sequence[pathlib.Path]], *, length: int, vocabulary: Vocabulary
  ):
    """Args:
    draws: the files of each draw.
    length: tokens that a row is filled up to.
    vocabulary: that the instances were made with.
    """
    _allow_many_files()
    self._draws = draws
    self._opened: tuple[int, Any] | None = None
    self._sizes = [len(self._open(draw)) for draw in range(len(draws))]
    self._length = length
    self._pad_id = vocabulary.pad_id
    self.dtype = record_dtype(len(vocabulary.tokens))
    self.size = sum(self._sizes)
    self._order = lru_cache(maxsize=2)(self._shuffle)

  def first(self, count: int) -> Rows:
    """The first rows of the first draw."""
    return self._read(0, np.arange(min(count, self._sizes[0])))

  def batches(
    self, *, first: int, last: int, rows: slice, batch_size: int, seed: int
  ) -> Iterator[Rows]:
    """Yields the batches of the updates that follow `first`, `first` + 1, ..., `last` - 1, read ahead.

    Which rows an update has is a function of `seed` and its number alone. Every instance of a draw comes once, in an
    order of its own, before the next draw begins; after the last draw the first one comes again, in another order.

    Args:
      first, last: updates made.
      rows: which of an update's rows; the others are of other processes.
      batch_size: rows of an update, of all processes.
      seed: of the order.
    """
    import grain  # takes a second, and the tests of all else do without

    places = np.arange(batch_size)[rows]

    def read(step: int) -> Rows:
      return self._at(step * batch_size + places, seed)

    dataset = grain.MapDataset.range(first, last).map(read)
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCHED)
    return iter(dataset.to_iter_dataset(options))

  def _at(self, places: np.ndarray, seed: int) -> Rows:
    """The rows at these places of the endless order of all epochs."""
    epochs, within = np.divmod(places, self.size)
    ends = np.cumsum(self._sizes)
    draws = np.searchsorted(ends, within, side="right")
    found: Rows = {}
    for epoch, draw in sorted({*zip(epochs.tolist(), draws.tolist(), strict=True)}):
      own = (epochs == epoch) & (draws == draw)
      order = self._order(seed, epoch, draw)
      rows = self._read(draw, order[within[own] - (ends[draw] - self._sizes[draw])])
      for name, values in rows.items():
        found.setdefault(name, np.empty((len(places), *values.shape[1:]), values.dtype))[own] = (
          values
        )
    return found

  def _open(self, draw: int) -> Any:
    """A draw's files. A large corpus has one for each of a thousand blocks, so those of the draw before are closed."""
    if self._opened is not None and self._opened[0] == draw:
      return self._opened[1]
    if self._opened is not None:
      self._opened[1].__exit__(None, None, None)
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    files = [str(file) for file in self._draws[draw]]
    try:
      source = ArrayRecordDataSource(files)
      len(source)  # reads them
    except Exception as error:  # of the library
      raise UserError(
        f"the prepared corpus cannot be read ({error}), {', '.join(files[:1])}; delete its folder, and run again"
      ) from None
    self._opened = draw, source
    return source

  def _shuffle(self, seed: int, epoch: int, draw: int) -> Int32[np.ndarray, " instances"]:
    rng = np.random.default_rng([seed, _ORDER, epoch, draw])
    return rng.permutation(self._sizes[draw]).astype(np.int32)

  def _read(self, draw: int, indices: np.ndarray) -> Rows:
    records = self._open(draw).__getitems__(indices.tolist())
    ids: UInt[np.ndarray, "rows length"] = np.full(
      (len(records), self._length), self._pad_id, self.dtype
    )
    header = np.empty((len(records), _HEADER), np.int32)
    for row, record in enumerate(records):
      numbers = np.frombuffer(record, self.dtype)
      header[row] = numbers[:_HEADER]
      ids[row, : len(numbers) - _HEADER] = numbers[_HEADER:]
    return {"ids": ids, "boundary": header[:, 0], "label": header[:, 1]}
