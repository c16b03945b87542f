"""Writes instances to ArrayRecord files, and reads batches of them.

A record is an array of unsigned integers of 16 bits, or of 32 bits if the vocabulary needs them. It holds the position
at which the second segment begins (or at which the row ends, if there is one segment), the label, and the token ids
with the special tokens.
"""

import concurrent.futures
import contextlib
import pathlib
import resource
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int, UInt

from discipline_jax.corpora.instances import Instance
from discipline_jax.corpora.permutation import Permutation
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.streams import RECORD_ORDER

_HEADER = 2  # numbers before the token ids

_PREFETCHED = 8  # batches that are read ahead

# A corpus with more instances than this in a draw has ORDER in its description: its order is computed when it is
# needed, and takes no memory. The order of a smaller corpus is a table, as it was for all corpora before ORDER, because
# another order would change the results of runs.
LARGE = 1 << 24
ORDER = "computed"

# The arrays of a batch by name: `ids` [rows, length] in the dtype of the records, `boundary` and `label` int32 [rows].
Rows = dict[str, np.ndarray]
# A function from places in an order to the numbers of the instances that stand there.
Order = Callable[[np.ndarray], np.ndarray]


def record_dtype(vocab_size: int) -> np.dtype:
  """Returns the integer type of the records of a vocabulary."""
  return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


def write_records(
  path: pathlib.Path, instances: Iterable[Instance], vocabulary: Vocabulary
) -> tuple[int, int]:
  """Writes instances to an ArrayRecord file.

  Args:
    path: the file.
    instances: the instances, without special tokens.
    vocabulary: their vocabulary, which decides the dtype of the records and has the special tokens.

  Returns:
    The number of instances, and the number of their tokens, special tokens included.

  Raises:
    RunFailed: the file cannot be written.
  """
  from array_record.python.array_record_module import ArrayRecordWriter

  dtype = record_dtype(len(vocabulary.tokens))
  cls, sep = [vocabulary.cls_id], [vocabulary.sep_id]
  count = tokens = 0
  try:
    # Groups of one, because single records are read in random order.
    writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
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
  except RuntimeError as error:  # the library raises it if the disk is full
    raise RunFailed(
      f"the corpus cannot be written ({error}), {path}; free space, or set another --config.cache_dir"
    ) from None
  return count, tokens


def _allow_many_files() -> None:
  """Raises this process's limit of open files to the most that the system allows."""
  _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
  # Some systems do not grant the limit that they name.
  with contextlib.suppress(ValueError, OSError):
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _read_ahead(read: Callable[[int], Rows], steps: range) -> Generator[Rows, None, None]:
  """Yields `read(step)` for each step, in order; a thread reads up to 8 batches ahead.

  If `read` raises an exception, the consumer gets it in place of that batch. The thread starts when the first batch is
  requested. It ends with the iterator: when that is exhausted, closed, deleted or interrupted.
  """
  # A local variable, because at exit a module may be cleared before its generators.
  is_finalizing = sys.is_finalizing
  reader = concurrent.futures.ThreadPoolExecutor(1, "records")
  try:
    pending = deque(reader.submit(read, step) for step in steps[:_PREFETCHED])
    for ahead in range(_PREFETCHED, len(steps) + _PREFETCHED):
      batch = pending.popleft().result()
      if ahead < len(steps):
        pending.append(reader.submit(read, steps[ahead]))
      yield batch
  finally:
    if not is_finalizing():  # at exit, the interpreter has already ended the thread
      reader.shutdown(cancel_futures=True)


class Records:
  """Reads the instances of one part of a corpus, at one length.

  A dupe factor of n gives n draws: instances are sampled n times from the whole text.

  Attributes:
    size: the number of instances in all draws.
    dtype: the integer type of the ids.
  """

  def __init__(
    self,
    draws: Sequence[Sequence[pathlib.Path]],
    *,
    length: int,
    vocabulary: Vocabulary,
    order: str | None = None,
  ):
    """Opens the files, and counts their instances.

    Args:
      draws: the files of each draw.
      length: the length of rows in tokens; shorter instances are padded.
      vocabulary: the vocabulary that the instances were made with.
      order: `ORDER` if the order is computed when it is needed; None if it is a table in memory.

    Raises:
      UserError: a file cannot be read.
    """
    _allow_many_files()
    self._draws = draws
    self._is_large = order == ORDER
    self._opened: tuple[int, Any] | None = None
    self._sizes = [len(self._open(draw)) for draw in range(len(draws))]
    self._length = length
    self._pad_id = vocabulary.pad_id
    self.dtype = record_dtype(len(vocabulary.tokens))
    self.size = sum(self._sizes)
    self._order = lru_cache(maxsize=2)(self._shuffle)

  def first(self, count: int) -> Rows:
    """Returns the first `count` rows of the first draw, or all of its rows if there are fewer."""
    return self._read(0, np.arange(min(count, self._sizes[0])))

  def batches(
    self,
    *,
    first: int,
    last: int,
    rows: Int[np.ndarray, " rows"],
    batch_size: int,
    seed: int,
  ) -> Generator[Rows, None, None]:
    """Yields the batches of the steps `first` to `last` - 1; a thread reads them ahead.

    The rows of a step depend on the seed and the step alone, so that a run can be resumed at any step. Each instance of
    a draw comes once, in random order, before the next draw begins. After the last draw the first one comes again, in
    another random order.

    Args:
      first: the first step, counted from 0.
      last: the step after the last one.
      rows: which of the rows of a step this process gets.
      batch_size: the rows of a step over all processes.
      seed: the seed of the order.
    """

    def read(step: int) -> Rows:
      return self._at(step * batch_size + rows, seed)

    return _read_ahead(read, range(first, last))

  def _at(self, places: Int[np.ndarray, " rows"], seed: int) -> Rows:
    """Returns the rows at these places of the endless sequence of epochs, in which each epoch has all draws."""
    epochs, within = np.divmod(places, self.size)
    ends = np.cumsum(self._sizes)
    draws = np.searchsorted(ends, within, side="right")
    found: Rows = {}
    for epoch, draw in sorted({*zip(epochs.tolist(), draws.tolist(), strict=True)}):
      own = (epochs == epoch) & (draws == draw)
      order = self._order(seed, epoch, draw)
      rows = self._read(draw, order(within[own] - (ends[draw] - self._sizes[draw])))
      for name, values in rows.items():
        found.setdefault(name, np.empty((len(places), *values.shape[1:]), values.dtype))[own] = (
          values
        )
    return found

  def _open(self, draw: int) -> Any:
    """Opens the files of a draw, and closes those of the one before: a draw of a large corpus has a thousand files."""
    if self._opened is not None and self._opened[0] == draw:
      return self._opened[1]
    if self._opened is not None:
      self._opened[1].__exit__(None, None, None)
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    files = [str(file) for file in self._draws[draw]]
    try:
      source = ArrayRecordDataSource(files)
      len(source)  # reads the files' indices
    except Exception as error:  # the library has no class of its own
      raise UserError(
        f"the prepared corpus cannot be read ({error}), {', '.join(files[:1])}; delete its folder and prepare the"
        " corpus again"
      ) from None
    self._opened = draw, source
    return source

  def _shuffle(self, seed: int, epoch: int, draw: int) -> Order:
    """Returns the order of a draw's instances in an epoch."""
    key = [seed, RECORD_ORDER, epoch, draw]
    if self._is_large:
      return Permutation.draw(self._sizes[draw], key)
    return np.random.default_rng(key).permutation(self._sizes[draw]).astype(np.int32).__getitem__

  def _read(self, draw: int, indices: Int[np.ndarray, " rows"]) -> Rows:
    """Reads instances of a draw, and pads them."""
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
