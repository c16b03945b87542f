"""Tests records: reading gives what was written, and an epoch has each instance once."""

import _thread
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from discipline_jax.corpora.instances import Instance
from discipline_jax.corpora.permutation import Permutation
from discipline_jax.corpora.records import (
  ORDER,
  Records,
  _read_ahead,
  record_dtype,
  write_records,
)
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.tokenizer import make_vocabulary

VOCABULARY = make_vocabulary([f"w{i}" for i in range(95)], 100)
LENGTH = 12


def instances(count, first=0):
  """Returns random instances; the first token says which one it is."""
  rng = np.random.default_rng(first)
  return [
    Instance(
      np.array([5 + number % 90, *rng.integers(5, 100, number % 4)]),
      rng.integers(5, 100, 1 + number % 3) if number % 2 else None,
      number % 2,
    )
    for number in range(first, first + count)
  ]


@pytest.fixture
def records(tmp_path):
  """Returns two draws of 13 and 14 instances; the first draw has two files."""
  files = []
  for name, own in (
    ("a0", instances(6)),
    ("a1", instances(7, 6)),
    ("b0", instances(14, 13)),
  ):
    files.append(tmp_path / name)
    count, tokens = write_records(files[-1], own, VOCABULARY)
    assert count == len(own)
    assert tokens == sum(
      len(one.first) + 2 + (0 if one.second is None else len(one.second) + 1) for one in own
    )
  return Records([files[:2], files[2:]], length=LENGTH, vocabulary=VOCABULARY)


def test_reading_gives_what_was_written(records):
  rows = records.first(100)
  assert rows["ids"].shape == (13, LENGTH)
  for row, one in enumerate([*instances(6), *instances(7, 6)]):
    second = [] if one.second is None else [*one.second, VOCABULARY.sep_id]
    expected = [VOCABULARY.cls_id, *one.first, VOCABULARY.sep_id, *second]
    expected += [VOCABULARY.pad_id] * (LENGTH - len(expected))
    np.testing.assert_array_equal(rows["ids"][row], expected)
    assert rows["boundary"][row] == len(one.first) + 2
    assert rows["label"][row] == one.label
  assert len(records.first(5)["ids"]) == 5


def numbers(batches):
  return [(batch["ids"][:, 1] - 5).tolist() for batch in batches]


def all_batches(records, first=0, last=20, rows=range(4)):
  return numbers(records.batches(first=first, last=last, rows=np.array(rows), batch_size=4, seed=1))


def test_every_instance_comes_once_an_epoch_one_draw_after_the_other(records):
  flat = [number for batch in all_batches(records) for number in batch]
  assert len(flat) == 80
  first, second = flat[:27], flat[27:54]
  assert sorted(first[:13]) == list(range(13))
  assert sorted(first[13:]) == list(range(13, 27))
  assert sorted(second) == sorted(first)
  assert second != first


def test_a_run_can_be_resumed_at_any_step(records):
  whole = all_batches(records)
  for first in (1, 6, 13):
    assert all_batches(records, first) == whole[first:]


def test_processes_share_the_rows(records):
  whole = all_batches(records)
  parts = [all_batches(records, rows=range(start, start + 2)) for start in (0, 2)]
  assert [a + b for a, b in zip(*parts, strict=True)] == whole


def test_large_vocabularies_need_more_bits(tmp_path):
  assert record_dtype(1 << 16) == np.uint16
  size = (1 << 16) + 10
  assert record_dtype(size) == np.uint32
  vocabulary = make_vocabulary([f"w{i}" for i in range(size - 5)], size)
  write_records(tmp_path / "a", [Instance(np.array([size - 1]), None)], vocabulary)
  rows = Records([[tmp_path / "a"]], length=5, vocabulary=vocabulary).first(1)
  assert rows["ids"][0].tolist() == [2, size - 1, 3, 0, 0]


def test_a_file_that_cannot_be_written(tmp_path):
  with pytest.raises(RunFailed, match=f", {tmp_path / 'nowhere' / 'a'}; "):
    write_records(tmp_path / "nowhere" / "a", instances(3), VOCABULARY)


def test_a_broken_file_is_an_error(tmp_path):
  (tmp_path / "a").write_bytes(b"not an ArrayRecord file")
  with pytest.raises(UserError, match=f", {tmp_path / 'a'}; "):
    Records([[tmp_path / "a"]], length=5, vocabulary=VOCABULARY)


def readers():
  return [thread for thread in threading.enumerate() if thread.name.startswith("records")]


def wait_for(read, count):
  deadline = time.monotonic() + 60
  while len(read) < count:
    assert time.monotonic() < deadline
    time.sleep(0.001)


def test_eight_batches_are_read_ahead_in_order_by_one_thread():
  read, names = [], set()

  def reader(step):
    names.add(threading.current_thread().name)
    read.append(step)
    return step

  batches = _read_ahead(reader, range(5, 25))
  assert not read, "reading starts when the first batch is requested"
  for number in range(3):
    assert next(batches) == 5 + number
    wait_for(read, number + 9)
    time.sleep(0.02)  # time to read a ninth one, which must not happen
    assert read == list(range(5, 5 + number + 9))
  assert list(batches) == list(range(8, 25))
  assert read == list(range(5, 25))
  assert len(names) == 1
  assert not readers()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9])
def test_few_batches(count):
  assert list(_read_ahead(str, range(count))) == [str(number) for number in range(count)]


def test_an_error_of_the_reader_is_raised_in_place_of_its_batch():
  def read(step):
    if step == 3:
      raise UserError("step 3")
    return step

  batches, taken = _read_ahead(read, range(100)), []
  with pytest.raises(UserError, match="step 3"):
    taken.extend(batches)  # keeps the batches before the error
  assert taken == [0, 1, 2]
  assert not readers()
  assert next(batches, None) is None


@pytest.mark.parametrize("end", ["close", "delete", "interrupt"])
def test_a_consumer_that_stops_early_leaves_no_thread(end):
  read = []

  def reader(step):
    read.append(step)
    time.sleep(0.05)
    if end == "interrupt" and step == 1:
      _thread.interrupt_main()  # like Ctrl-C while the consumer waits
      time.sleep(0.05)
    return step

  batches = _read_ahead(reader, range(10**9))
  if end == "interrupt":
    with pytest.raises(KeyboardInterrupt):
      list(batches)
  else:
    assert next(batches) == 0
  if end == "close":
    batches.close()
  elif end == "delete":
    del batches
  assert not readers()
  assert len(read) < 4, "reading stops"


def test_a_process_ends_with_an_iterator_left_open():
  code = """
import time
from discipline_jax.corpora.records import _read_ahead
batches = _read_ahead(lambda step: time.sleep(0.01) or step, range(10**9))
print(next(batches))
"""
  ended = subprocess.run(
    [sys.executable, "-c", code],
    capture_output=True,
    text=True,
    timeout=60,
    cwd=pathlib.Path(__file__).parents[2],
    check=False,
  )
  assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0\n", "")


def test_the_order_of_small_corpora_is_a_table_of_numpy(records):
  """Runs that were begun by earlier versions go on with it."""
  flat = [number for batch in all_batches(records) for number in batch]
  first, second = (
    np.random.default_rng([1, 3, 0, draw]).permutation(size) for draw, size in enumerate((13, 14))
  )
  assert flat[:13] == first.tolist()
  assert flat[13:27] == (13 + second).tolist()


def test_large_corpora_have_a_computed_order(records, tmp_path):
  """It has each instance once, too, can be resumed at any step, and takes no table."""
  files = [[tmp_path / "a0", tmp_path / "a1"], [tmp_path / "b0"]]
  large = Records(files, length=LENGTH, vocabulary=VOCABULARY, order=ORDER)
  np.testing.assert_array_equal(large.first(100)["ids"], records.first(100)["ids"])
  flat = [number for batch in all_batches(large) for number in batch]
  assert sorted(flat[:13]) == list(range(13))
  assert sorted(flat[13:27]) == list(range(13, 27))
  assert flat[27:40] != flat[:13]
  assert [number for batch in all_batches(large, 5) for number in batch] == flat[20:]
  order = Permutation.draw(13, [1, 3, 0, 0])
  assert flat[:13] == order(np.arange(13)).tolist()
