"""Tests the order of samples, and the lengths that batches are padded to."""

import itertools

import numpy as np
import pytest

from discipline_jax.training.batches import Batches, bucket_lengths, round_up

INDICES = np.array([[5, 6, 7, 8, 9, 10, 11], [1, 2, 3, 4, 5, 6, 7]], np.int32)
EQUAL = np.full(12, 20, np.int32)


def make(lengths=EQUAL, indices=INDICES, seeds=(3, 4), **changes) -> Batches:
  return Batches(
    indices,
    list(seeds),
    lengths,
    **{"batch_size": 3, "accumulation": 1, "row_multiple": 1, **changes},
  )


def epoch(batches: Batches, number: int) -> np.ndarray:
  """Returns the samples of an epoch in their order, for each replica."""
  steps = batches.steps_per_epoch
  whole = [batches.at(number * steps + step)[0] for step in range(steps)]
  # a batch is dealt out to its parts one by one
  rows = np.concatenate([one.transpose(0, 2, 1).reshape(len(one), -1) for one in whole], axis=1)
  return np.stack([row[row >= 0] for row in rows])


# as texts have them: most short, few long
SKEWED = np.random.default_rng(0).lognormal(3.2, 0.4, 12000).astype(np.int32)


@pytest.mark.parametrize("accumulation", [1, 2, 3])
@pytest.mark.parametrize("row_multiple", [1, 2, 8])
@pytest.mark.parametrize("lengths", [EQUAL, np.arange(12, dtype=np.int32)], ids=["equal", "unlike"])
def test_an_epoch_sees_every_sample_once(accumulation, row_multiple, lengths):
  batches = make(lengths, accumulation=accumulation, row_multiple=row_multiple)
  assert batches.steps_per_epoch == 3
  for number in range(2):
    np.testing.assert_array_equal(np.sort(epoch(batches, number)), INDICES)


def test_shape_is_static_and_rows_divide():
  batches = make(accumulation=2, row_multiple=4)
  assert {batches.at(step)[0].shape for step in range(5)} == {(2, 2, 4)}


def test_a_batch_depends_on_seed_and_step_alone():
  for lengths in (EQUAL, np.arange(12, dtype=np.int32)):
    expected, length = make(lengths).at(4)
    again = make(lengths)
    for step in (7, 0, 4):  # in any order
      result = again.at(step)
    np.testing.assert_array_equal(result[0], expected)
    assert result[1] == length


def test_epochs_and_replicas_have_their_own_order():
  batches = make(batch_size=7)
  first, second = epoch(batches, 0), epoch(batches, 1)
  assert not np.array_equal(first, second)
  assert not np.array_equal(first[0] - 5, first[1] - 1)


def test_equal_lengths_keep_the_shuffled_order():
  batches = make()
  for number in range(2):
    for row, seed, indices in zip(epoch(batches, number), (3, 4), INDICES, strict=True):
      plain = np.random.default_rng([seed, 1, number]).permutation(indices)
      np.testing.assert_array_equal(row, plain)
  assert {batches.at(step)[1] for step in range(6)} == {20}


class TestUnlikeLengths:
  LENGTHS = round_up(SKEWED)
  # each replica leaves out others, as with splits of their own
  PARTS = np.stack([np.random.default_rng(seed).permutation(12000)[:10800] for seed in (3, 4)])

  def make(self, replicas=slice(None), lengths=LENGTHS, batch_size=32) -> Batches:
    return make(lengths, self.PARTS[replicas], (3, 4)[replicas], batch_size=batch_size)

  @pytest.mark.parametrize("batch_size", [7, 32, 33, 10799, 10800, 20000])
  def test_every_sample_once_in_an_epoch(self, batch_size):
    batches = self.make(batch_size=batch_size)
    for number in range(2):
      np.testing.assert_array_equal(np.sort(epoch(batches, number)), np.sort(self.PARTS))

  def test_a_batch_is_as_long_as_its_longest_sample(self):
    batches, found = self.make(), set()
    for step in range(batches.steps_per_epoch):
      batch, length = batches.at(step)
      assert length == self.LENGTHS[batch[batch >= 0]].max()
      one, own = batches.at(step, slice(1, 2))
      np.testing.assert_array_equal(one, batch[1:])
      assert own == self.LENGTHS[one[one >= 0]].max() <= length
      found.add(length)
    assert found == set(bucket_lengths(SKEWED))

  def test_little_of_it_is_padding(self):
    batches, places, tokens = self.make(), 0, 0
    for step in range(batches.steps_per_epoch):
      batch, length = batches.at(step)  # of both replicas, side by side
      places += (batch >= 0).sum() * length
      tokens += SKEWED[batch[batch >= 0]].sum()
    assert tokens == SKEWED[self.PARTS].sum()
    assert 1 - tokens / places < 0.15
    # which is far from what batches in plain order would have
    plain = SKEWED[self.PARTS[:, : 337 * 32].reshape(2, 337, 32)]
    assert 1 - plain.sum() / (64 * plain.max((0, 2)).sum()) > 0.5

  def test_batches_come_in_random_order_of_length(self):
    batches = self.make()
    per_batch = [batches.at(step)[1] for step in range(100)]
    assert per_batch[:50] != sorted(per_batch[:50])
    assert per_batch != [batches.at(batches.steps_per_epoch + step)[1] for step in range(100)]

  def test_the_short_batch_has_random_samples(self):
    """A sample counts more there: it must not be the same, longest ones in each epoch."""
    lengths = np.repeat(np.array([10, 20, 90], np.int32), [12, 12, 11])
    batches = make(lengths, np.arange(35, dtype=np.int32)[None], (3,), batch_size=8)
    last = [batches.at(5 * number + 4)[0] for number in range(50)]
    short = np.stack([one[one >= 0] for one in last])
    assert short.shape == (50, 3)
    assert abs((lengths[short] == 90).mean() - 11 / 35) < 5 * (0.31 * 0.69 / 150) ** 0.5
    assert len(np.unique(short)) == 35

  def test_a_replica_does_not_depend_on_its_neighbours(self):
    both = self.make()
    for replica in (0, 1):
      alone = self.make(slice(replica, replica + 1))
      for number in range(2):
        np.testing.assert_array_equal(epoch(both, number)[replica], epoch(alone, number)[0])

  def test_nor_does_one_whose_own_samples_are_all_equally_long(self):
    lengths = self.LENGTHS.copy()
    lengths[self.PARTS[0]] = 20
    assert np.ptp(lengths[self.PARTS[1]]) > 0
    both, alone = self.make(lengths=lengths), self.make(slice(1), lengths)
    np.testing.assert_array_equal(epoch(both, 0)[0], epoch(alone, 0)[0])


WORTH = 2500  # positions that another bucket must save


def positions(lengths: np.ndarray, edges: tuple[int, ...]) -> int:
  """Returns the number of positions, padding included, with the buckets `edges`."""
  values, counts = np.unique(lengths, return_counts=True)
  return sum(
    count * min(edge for edge in edges if edge >= value)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True)
  )


def best(lengths: np.ndarray, count: int) -> int:
  """Returns the smallest number of positions that `count` buckets can give, by trying all."""
  *others, last = np.unique(lengths).tolist()
  return min(
    positions(lengths, (*rest, last)) for rest in itertools.combinations(others, count - 1)
  )


@pytest.mark.parametrize("repeats", [1, 20, 1000])
@pytest.mark.parametrize("seed", range(8))
def test_buckets_are_the_fewest_and_the_best(seed, repeats):
  rng = np.random.default_rng(seed)
  values = rng.choice(np.arange(3, 130), 7, replace=False)
  lengths = np.repeat(rng.choice(values, 60, p=rng.dirichlet(np.ones(7))), repeats)
  count = 1
  while (best(lengths, count) - lengths.sum()) / best(lengths, count) > 0.1:
    if best(lengths, count) - best(lengths, count + 1) < WORTH:
      break
    count += 1
  found = bucket_lengths(lengths.astype(np.int32))
  assert len(found) == count
  assert positions(lengths, tuple(found.tolist())) == best(lengths, count)


def test_buckets_by_hand():
  def found(*lengths: int) -> list[int]:
    return bucket_lengths(np.repeat(lengths, 1000).astype(np.int32)).tolist()

  assert found(*[11] * 8, 2) == [11]  # 9 of 99 places are padding
  assert found(*[17] * 5, 5) == [5, 17]  # 12 of 102 would be
  # 37 of 60 would be, in two buckets still 1 of 24 or 16 of 39
  assert found(1, 2, 20) == [2, 20]
  assert found(64, 64) == [64]


@pytest.mark.parametrize(("samples", "expected"), [(62, [50]), (63, [10, 50])])
def test_a_bucket_is_made_only_where_it_saves_enough(samples, expected):
  """A bucket of 10 saves 40 positions a sample: 2,480 for 62 samples, 2,520 for 63."""
  lengths = np.array([10] * samples + [50] * 3, np.int32)
  np.testing.assert_array_equal(bucket_lengths(lengths), expected)


def test_lengths_are_rounded_up_to_the_next_bucket():
  lengths = np.array([10, 50, 10, 49, 9, 10, 10, 50] * 100, np.int32)
  np.testing.assert_array_equal(bucket_lengths(lengths), [10, 50])
  rounded = round_up(lengths)
  np.testing.assert_array_equal(rounded, [10, 50, 10, 50, 10, 10, 10, 50] * 100)
  assert rounded.dtype == np.int32


@pytest.mark.parametrize(("samples", "length", "expected"), [(100, 10, [10, 35]), (147, 18, [35])])
def test_a_bucket_must_save_2500_positions(samples, length, expected):
  """Beside samples of 35 tokens, a bucket of 10 saves 100 * 25 = 2,500, and one of 18 saves 147 * 17 = 2,499."""
  lengths = np.array([length] * samples + [35] * 100, np.int32)
  np.testing.assert_array_equal(bucket_lengths(lengths), expected)


def test_samples_of_one_length_come_in_the_order_of_the_seed():
  """Without lengths to sort by, an epoch is the permutation of [seed, stream, epoch]."""
  batches = Batches(
    np.arange(20)[None], [3], np.full(20, 9, np.int32), batch_size=4, accumulation=1, row_multiple=1
  )
  for epoch in range(2):
    found = np.concatenate([batches.at(5 * epoch + step)[0].ravel() for step in range(5)])
    expected = np.random.default_rng([3, 1, epoch]).permutation(20)
    np.testing.assert_array_equal(found, expected)
