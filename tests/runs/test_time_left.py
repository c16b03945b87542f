"""The time that a study has left, by hand."""

import pathlib

import pytest

from discipline_jax import defaults
from discipline_jax.runs.cells import Cell, State
from discipline_jax.runs.time_left import time_left
from tests.fake_runs import finetuning, pretraining, result


def cells(tmp_path: pathlib.Path, **configs):
  return {name: Cell(name, config, tmp_path / name, None, None) for name, config in configs.items()}


def splice(**fields):
  return finetuning(**{"task.name": "dna_splice", "replicas": 2, "train.batch_size": 10, **fields})


def finished(config, **fields):
  return State("finished", result=result(config, **fields))


MISSING = State("missing")


def test_from_the_speed_of_the_same_network_and_length(tmp_path):
  """120 epochs of 9 updates of 10 samples, for two seeds, are 21,600 samples: 90 minutes at 4 a second."""
  done, left = splice(**{"train.epochs": 10}), splice(**{"train.epochs": 120})
  left.model.init = "re_emb"
  all_cells = cells(tmp_path, done=done, left=left)
  states = {"done": finished(done, steps=90, examples_per_second=4.0), "left": MISSING}
  assert time_left(all_cells, states, ["done", "left"]) == "about 1 h 30 min"
  (tmp_path / "left" / "checkpoints" / "720").mkdir(parents=True)  # of 1,080
  (tmp_path / "left" / "checkpoints" / "360").mkdir()
  assert time_left(all_cells, states, ["left"]) == "about 30 min"
  assert time_left(all_cells, states, ["done"]) == "none"


def test_the_middle_one_of_several_speeds(tmp_path):
  config = splice(**{"train.steps": 30})
  all_cells = cells(tmp_path, a=config, b=config, c=config, d=config)
  states = {
    name: finished(config, examples_per_second=speed)
    for name, speed in (("a", 1.0), ("b", 5.0), ("c", 100.0))
  }
  assert time_left(all_cells, states | {"d": MISSING}, ["d"]) == "about 2 min"  # 600 / 5 s


@pytest.mark.parametrize(
  "other",
  [
    {"model.checkpoint": "other"},
    {"model.config.hidden_size": 3},
    {"model.dtype": "bfloat16"},
    {"task.max_length": 30},
    {"task.name": "protein_stability"},
    {"train.epochs": 3, "train.steps": None, "task.train_fraction": 0.5},
  ],
)
def test_another_network_or_length_is_unknown(other, tmp_path):
  config = splice(**{"train.steps": 60})
  unlike = splice(**{"train.steps": 60})
  with unlike.ignore_type():
    unlike.update_from_flattened_dict(other)
  all_cells = cells(tmp_path, done=config, same=config, unlike=unlike)
  states = {
    "done": finished(config, examples_per_second=10.0),
    "same": MISSING,
    "unlike": MISSING,
  }
  assert time_left(all_cells, states, ["unlike"]) == "unknown"
  assert time_left(all_cells, states, all_cells) == "about 2 min, unknown for 1 of 2 runs"


def test_tasks_of_one_length_tell_of_each_other(tmp_path):
  """Histones have 502 tokens each; the steps of the second one are given."""
  one = finetuning(**{"task.name": "dna_h3"})
  other = finetuning(**{"task.name": "dna_h4", "train.steps": 300})
  all_cells = cells(tmp_path, one=one, other=other)
  states = {"one": finished(one, examples_per_second=1.0), "other": MISSING}
  assert time_left(all_cells, states, ["other"]) == "about 2 h 40 min"  # 300 x 32 samples


def test_all_steps_of_a_pre_training_have_its_sizes(tmp_path):
  one, other = (splice(**{"train.steps": 60, "model.checkpoint": f"pre@{i}"}) for i in (0, 200))
  states = {"one": finished(one, examples_per_second=10.0), "other": MISSING}
  assert time_left(cells(tmp_path, one=one, other=other), states, ["other"]) == "about 2 min"


def test_pre_training_counts_tokens(tmp_path):
  """900 updates of 128 tokens and 100 of 512, 4 rows each: 665,600 tokens."""
  one = pretraining(**{"train.steps": 1000, "train.batch_size": 4})
  states = {"one": finished(one, tokens_per_second=1000.0), "other": MISSING}
  assert time_left(cells(tmp_path, one=one, other=one), states, ["other"]) == "about 11 min"


def test_a_run_of_one_update_has_no_speed(tmp_path):
  config = splice(**{"train.steps": 1})
  states = {"one": finished(config, examples_per_second=None), "other": MISSING}
  assert time_left(cells(tmp_path, one=config, other=config), states, ["other"]) == "unknown"
  assert defaults.finetune().train.steps is None
