"""How many seeds and epochs fit into a time, against sums by hand."""

import contextlib
import dataclasses

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from discipline_jax.errors import UserError
from discipline_jax.programs.timing import Grid, Speed, _without_cache, fit

# A training of 100 updates, evaluated twice: 5 + 100 * 0.5 + 2 * 1 + 3 = 60 s.
SPEED = Speed(begin=5, compile=30, update=0.5, evaluate=1, finish=3)
GRID = Grid(inits=2, rates=3, seeds=3, trial_steps=100, steps=100, epoch_steps=20, every_steps=50)


def test_seconds_by_hand():
  assert SPEED.run(100, 50) == 60
  assert SPEED.run(101, 50) == 5 + 50.5 + 3 + 3
  assert GRID.seconds(SPEED) == 3 * 30 + 2 * (3 + 3) * 60
  # Half as long: 5 + 25 + 1 + 3 = 34 s; and two of the three rates are compiled again.
  assert shorter(3).seconds(SPEED) == 5 * 30 + 2 * (3 * 34 + 3 * 60)


def shorter(seeds, steps=100):
  return dataclasses.replace(GRID, seeds=seeds, steps=steps, trial_steps=steps // 2)


def minutes(seconds, spent=0.0):
  """The bound whose planned share, all but a twentieth, holds so many seconds after those spent."""
  return (seconds + spent) / 0.95 / 60


@pytest.mark.parametrize(
  ("bound", "expected"),
  [
    (None, GRID),
    (minutes(810.1, 40), GRID),
    (minutes(809, 40), shorter(3)),
    (minutes(714.1, 40), shorter(3)),
    (minutes(713, 40), shorter(2)),
    # Two seeds: 150 + 2 * (3 * 34 + 2 * 60) = 594.
    (minutes(594.1, 40), shorter(2)),
    # Four epochs: 5 + 40 + 2 + 3 = 50, and 5 + 20 + 1 + 3 = 29: 150 + 2 * (3 * 29 + 2 * 50) = 524.
    (minutes(593, 40), shorter(2, 80)),
    (minutes(523, 40), shorter(2, 60)),
    # One epoch: 5 + 10 + 1 + 3 = 19, and 5 + 5 + 1 + 3 = 14: 150 + 2 * (3 * 14 + 2 * 19) = 310.
    (minutes(310.1, 40), shorter(2, 20)),
  ],
)
def test_what_is_cut_first(bound, expected):
  assert fit(GRID, SPEED, bound, 40) == expected


def test_too_few_minutes_say_how_many_are_needed():
  with pytest.raises(UserError, match=r"compare.minutes = 6.12\d* is too few: .* for 20 updates"):
    fit(GRID, SPEED, minutes(309, 40), 40)
  with pytest.raises(UserError, match="--config.compare.minutes=7"):  # 350 s / 0.95 = 6.1 minutes
    fit(GRID, SPEED, 1.0, 40)
  fit(GRID, SPEED, 7, 40)


def test_less_than_an_epoch_is_never_cut():
  short = dataclasses.replace(GRID, steps=10, trial_steps=10)
  # 5 + 5 + 1 + 3 = 14, and 5 + 2.5 + 1 + 3 = 11.5.
  speed = dataclasses.replace(SPEED, compile=0)
  cost = 2 * (3 * 11.5 + 2 * 14)
  least = dataclasses.replace(short, seeds=2, trial_steps=5)
  assert fit(short, speed, minutes(cost + 0.1), 0) == least
  with pytest.raises(UserError, match="for 10 updates"):
    fit(short, speed, minutes(cost - 1), 0)


def test_compiling_is_timed_without_the_cache(tmp_path):
  """A second start finds its programs in the cache, but those of the runs that follow are not there."""
  hits = []
  jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
  options = {
    "jax_compilation_cache_dir": str(tmp_path),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
  }
  before = {name: jax.config.values[name] for name in options}
  found = []
  try:
    for name, value in options.items():
      jax.config.update(name, value)
    compilation_cache.reset_cache()
    for context in (contextlib.nullcontext(), _without_cache(), contextlib.nullcontext()):
      hits.clear()
      lowered = jax.jit(lambda x: 3 * x + 1).lower(jax.ShapeDtypeStruct((7,), "float32"))
      with context:
        lowered.compile()
      found.append(hits.count("/jax/compilation_cache/cache_hits"))
  finally:
    for name, value in before.items():
      jax.config.update(name, value)
    compilation_cache.reset_cache()
  assert found == [0, 0, 1]
