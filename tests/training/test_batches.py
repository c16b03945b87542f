"""The order of samples."""

import numpy as np
import pytest

from discipline_jax.training.batches import Batches

INDICES = np.array([[5, 6, 7, 8, 9, 10, 11], [1, 2, 3, 4, 5, 6, 7]], np.int32)


def make(**changes) -> Batches:
  return Batches(
    INDICES, [3, 4], **{"batch_size": 3, "accumulation": 1, "row_multiple": 1, **changes}
  )


@pytest.mark.parametrize("accumulation", [1, 2, 3])
@pytest.mark.parametrize("row_multiple", [1, 2, 8])
def test_an_epoch_sees_every_sample_once(accumulation, row_multiple):
  batches = make(accumulation=accumulation, row_multiple=row_multiple)
  assert batches.steps_per_epoch == 3
  for epoch in range(2):
    seen = np.concatenate(
      [batches.at(3 * epoch + step).reshape(2, -1) for step in range(3)], axis=1
    )
    for replica in range(2):
      np.testing.assert_array_equal(np.sort(seen[replica][seen[replica] >= 0]), INDICES[replica])


def test_shape_is_static_and_rows_divide():
  batches = make(accumulation=2, row_multiple=4)
  assert {batches.at(step).shape for step in range(5)} == {(2, 2, 4)}


def test_a_batch_depends_on_seed_and_step_alone():
  np.testing.assert_array_equal(make().at(4), make().at(4))
  again = make()
  for step in (7, 0, 4):  # in any order
    result = again.at(step)
  np.testing.assert_array_equal(result, make().at(4))


def test_epochs_and_replicas_have_their_own_order():
  batches = make(batch_size=7)
  assert not np.array_equal(batches.at(0), batches.at(1))
  assert not np.array_equal(batches.at(0)[0] - 5, batches.at(0)[1] - 1)
