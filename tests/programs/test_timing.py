"""How many seeds and epochs fit into a time, against sums by hand."""

import dataclasses

import pytest

from discipline_jax.errors import UserError
from discipline_jax.programs.timing import Grid, Speed, fit

# A training of 100 updates, evaluated twice: 5 + 100 * 0.5 + 2 * 1 + 3 = 60 s.
SPEED = Speed(begin=5, compile=30, update=0.5, evaluate=1, finish=3)
GRID = Grid(inits=2, rates=3, seeds=3, steps=100, epoch_steps=20, every_steps=50)


def test_seconds_by_hand():
  assert SPEED.run(100, 50) == 60
  assert SPEED.run(101, 50) == 5 + 50.5 + 3 + 3
  assert GRID.trainings == 2 * (3 + 2)
  assert GRID.seconds(SPEED) == 3 * 30 + 10 * 60


def minutes(seconds, spent=0.0):
  """The bound whose planned share, all but a twentieth, holds so many seconds after those spent."""
  return (seconds + spent) / 0.95 / 60


@pytest.mark.parametrize(
  ("bound", "expected"),
  [
    (None, GRID),
    (minutes(690.1, 40), GRID),
    (minutes(689, 40), dataclasses.replace(GRID, seeds=2)),
    (minutes(570.1, 40), dataclasses.replace(GRID, seeds=2)),
    # Four epochs: 90 + 8 * (5 + 40 + 2 + 3) = 490.
    (minutes(569, 40), dataclasses.replace(GRID, seeds=2, steps=80)),
    (minutes(489, 40), dataclasses.replace(GRID, seeds=2, steps=60)),
    # One epoch: 90 + 8 * (5 + 10 + 1 + 3) = 242.
    (minutes(242.1, 40), dataclasses.replace(GRID, seeds=2, steps=20)),
  ],
)
def test_fewer_seeds_come_before_fewer_epochs(bound, expected):
  assert fit(GRID, SPEED, bound, 40) == expected


def test_too_few_minutes_say_how_many_are_needed():
  with pytest.raises(UserError, match=r"compare.minutes = 4\.\d+ is too few: 8 trainings of 20 "):
    fit(GRID, SPEED, minutes(241, 40), 40)
  with pytest.raises(UserError, match="--config.compare.minutes=5"):  # 282 s / 0.95 = 4.9 minutes
    fit(GRID, SPEED, 1.0, 40)
  fit(GRID, SPEED, 5, 40)


def test_less_than_an_epoch_is_never_cut():
  short = dataclasses.replace(GRID, steps=10)
  cost = 90 + 8 * (5 + 5 + 1 + 3)
  assert fit(short, SPEED, minutes(cost + 0.1), 0) == dataclasses.replace(short, seeds=2)
  with pytest.raises(UserError, match="trainings of 10 updates"):
    fit(short, SPEED, minutes(cost - 1), 0)
