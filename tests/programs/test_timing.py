"""How many seeds and epochs fit into a time, against sums by hand."""

import dataclasses

import jax
import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.programs.timing import Grid, Speed, fit, measure_speed
from discipline_jax.training.sharding import make_mesh

# A training of 100 updates, evaluated twice: 5 + 100 * 0.5 + 2 * 1 + 3 = 60 s.
SPEED = Speed(begin=5, update=0.5, evaluate=1, finish=3)
GRID = Grid(inits=2, rates=3, seeds=3, trial_steps=100, steps=100, epoch_steps=20, every_steps=50)


def test_seconds_by_hand():
  assert SPEED.run(100, 50) == 60
  assert SPEED.run(101, 50) == 5 + 50.5 + 3 + 3
  assert GRID.seconds(SPEED) == 2 * (3 + 3) * 60
  # Half as long: 5 + 25 + 1 + 3 = 34 s.
  assert shorter(3).seconds(SPEED) == 2 * (3 * 34 + 3 * 60)


def shorter(seeds, steps=100):
  return dataclasses.replace(GRID, seeds=seeds, steps=steps, trial_steps=-(-steps // 2))


def minutes(seconds, spent=0.0):
  """Returns the bound whose planned share, all but a twentieth, holds so many seconds after those spent."""
  return (seconds + spent) / 0.95 / 60


@pytest.mark.parametrize(
  ("bound", "expected"),
  [
    (None, GRID),
    (minutes(720.1, 40), GRID),
    (minutes(719, 40), shorter(3)),
    (minutes(564.1, 40), shorter(3)),
    (minutes(563, 40), shorter(2)),
    # Two seeds: 2 * (3 * 34 + 2 * 60) = 444.
    (minutes(444.1, 40), shorter(2)),
    # Four epochs: 5 + 40 + 2 + 3 = 50, and 5 + 20 + 1 + 3 = 29: 2 * (3 * 29 + 2 * 50) = 374.
    # Four and three quarters: 5 + 47.5 + 2 + 3 = 57.5, and 5 + 24 + 1 + 3 = 33: 2 * (3 * 33 + 2 * 57.5) = 428.
    (minutes(443, 40), shorter(2, 95)),
    (minutes(374.1, 40), shorter(2, 80)),
    (minutes(304.1, 40), shorter(2, 60)),
    # One epoch: 5 + 10 + 1 + 3 = 19, and 5 + 5 + 1 + 3 = 14: 2 * (3 * 14 + 2 * 19) = 160.
    (minutes(160.1, 40), shorter(2, 20)),
  ],
)
def test_what_is_cut_first(bound, expected):
  assert fit(GRID, SPEED, bound, 40) == expected


def test_too_few_minutes_say_how_many_are_needed():
  with pytest.raises(UserError, match=r"compare.minutes = 3.49\d* is too few: .* for 20 updates"):
    fit(GRID, SPEED, minutes(159, 40), 40)
  with pytest.raises(UserError, match="--config.compare.minutes=4"):  # 200 s / 0.95 = 3.5 minutes
    fit(GRID, SPEED, 1.0, 40)
  fit(GRID, SPEED, 4, 40)


def test_less_than_an_epoch_is_never_cut():
  short = dataclasses.replace(GRID, steps=10, trial_steps=10)
  # 5 + 5 + 1 + 3 = 14, and 5 + 2.5 + 1 + 3 = 11.5.
  cost = 2 * (3 * 11.5 + 2 * 14)
  least = dataclasses.replace(short, seeds=2, trial_steps=5)
  assert fit(short, SPEED, minutes(cost + 0.1), 0) == least
  with pytest.raises(UserError, match="for 10 updates"):
    fit(short, SPEED, minutes(cost - 1), 0)


def small(rate, steps):
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.model.init = "scratch"
  config.model.config.update(
    vocab_size=64,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=64,
  )
  config.train.update(steps=steps, learning_rate=rate, warmup_steps=steps // 2)
  return Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))


def test_runs_of_other_rates_and_numbers_of_updates_share_their_programs():
  """So a comparison compiles once."""
  texts = set()
  for rate, steps in ((1e-3, 10), (1e-4, 20)):
    (lowered,) = small(rate, steps).lower().values()
    texts.add(lowered.as_text())
  assert len(texts) == 1


def test_a_run_of_fewer_updates_than_are_timed():
  speed = measure_speed(small(1e-3, 3))
  assert min(dataclasses.astuple(speed)) > 0
  assert speed.finish > speed.evaluate
