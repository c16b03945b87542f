"""Tests which changes of a config make another run."""

import json

import pytest

from discipline_jax import defaults
from discipline_jax.runs.identity import digest, first_difference, identity


def fields(config) -> dict:
  return json.loads(config.to_json_best_effort())


@pytest.mark.parametrize("make", [defaults.finetune, defaults.pretrain])
def test_a_config_and_its_file_are_one_run(make):
  config = make()
  assert first_difference(config, fields(config)) is None
  assert digest(config) == digest(fields(config))


@pytest.mark.parametrize(
  ("name", "kind", "counts"),
  [
    ("custom", "classification", False),
    ("custom", "regression", True),
    ("protein_stability", "classification", True),  # `kind` is of tables of one's own only
  ],
)
def test_the_scale_of_values_counts_where_there_are_values(name, kind, counts):
  ours, theirs = defaults.finetune(), defaults.finetune()
  for config in (ours, theirs):
    config.task.update(name=name, kind=kind)
  theirs.task.standardise = True
  assert (first_difference(ours, theirs) is not None) == counts
  assert (digest(ours) != digest(theirs)) == counts


@pytest.mark.parametrize(
  ("name", "value"),
  [
    ("data_dir", "elsewhere"),
    ("cache_dir", "elsewhere"),
    ("train.log_every_steps", 3),
    ("checkpoint.every_steps", 3),
    ("predict.output", "out.csv"),
    ("predict.format", "string"),
    ("export.output", "out"),
  ],
)
def test_places_and_intervals_of_writing_do_not_count(name, value):
  other = defaults.finetune()
  other.update_from_flattened_dict({name: value})
  assert first_difference(defaults.finetune(), other) is None
  assert digest(defaults.finetune()) == digest(other)


@pytest.mark.parametrize(
  ("name", "value"),
  [("seed", 1), ("task.name", "dna_h3"), ("train.learning_rate", 1e-4), ("eval.every_steps", 7)],
)
def test_all_else_counts(name, value):
  ours, theirs = defaults.finetune(), defaults.finetune()
  theirs.update_from_flattened_dict({name: value})
  found = first_difference(ours, theirs)
  assert found is not None
  assert found[0] == name
  assert found[2] == value
  assert digest(ours) != digest(theirs)


@pytest.mark.parametrize("make", [defaults.finetune, defaults.pretrain])
def test_a_field_that_an_older_version_did_not_have_has_its_default(make):
  """Each field by itself is taken out of the file, as if it were new."""
  config = make()
  for name in identity(config):
    if name == "mode":
      continue
    older = fields(config)
    *path, field = name.split(".")
    owner = older
    for part in path:
      owner = owner[part]
    del owner[field]
    assert first_difference(config, older) is None, name
    assert digest(older) == digest(config)


def test_long_sequences_are_cut_as_if_it_were_said():
  """As the files of older versions do say."""
  config, older = defaults.finetune(), fields(defaults.finetune())
  older["task"]["long"] = "cut"
  assert first_difference(config, older) is None
  assert digest(older) == digest(config)
  older["task"]["long"] = "windows"
  assert first_difference(config, older) == ("task.long", "cut", "windows")


def test_a_new_field_that_is_set_makes_another_run():
  older = fields(defaults.finetune())
  del older["model"]["revision"]
  config = defaults.finetune()
  config.model.revision = "v1"
  assert first_difference(config, older) == ("model.revision", "v1", None)


def test_a_field_that_this_version_does_not_have_is_left_out():
  older = fields(defaults.finetune())
  older["train"]["momentum"] = 0.9
  assert first_difference(defaults.finetune(), older) is None
  assert defaults.read(older).to_dict() == defaults.finetune().to_dict()


def test_modes_are_different_runs():
  assert first_difference(defaults.finetune(), defaults.pretrain()) == (
    "mode",
    "finetune",
    "pretrain",
  )
  assert first_difference(defaults.finetune(), {"mode": "study"}) == ("mode", "finetune", "study")
