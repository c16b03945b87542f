"""Tests that kept features equal new ones, and are never used for other files or settings."""

import dataclasses

import numpy as np
import pytest
from absl import logging

from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks import cache
from discipline_jax.tasks.cache import cached
from discipline_jax.tasks.features import Features
from tests.testdata import tiny
from tests.testdata.small_files import write_data


def features(value: int = 3, segments: bool = False) -> Features:
  symbols = np.full((2, 4), value, np.uint8)
  return Features(
    symbols,
    symbols if segments else None,
    np.array([4, 4], np.int32),
    np.arange(2, dtype=np.int32),
    np.arange(9, dtype=np.int32),
    {"train": 1, "validation": 1},
    {"labels": np.array([0.5, 1], np.float32)},
  )


@pytest.fixture
def source(tmp_path, monkeypatch):
  monkeypatch.setattr(cache, "_WORTH", 3)
  path = tmp_path / "data.fa"
  path.write_text("abcdef")
  return path


def never():
  raise AssertionError("made anew")


@pytest.mark.parametrize("segments", [False, True])
def test_kept_features_are_the_made_ones(source, tmp_path, segments):
  made = cached(tmp_path / "c", [source], [1], lambda: features(segments=segments))
  kept = cached(tmp_path / "c", [source], [1], never)
  for field in dataclasses.fields(Features):
    ours, theirs = getattr(kept, field.name), getattr(made, field.name)
    if field.name == "targets":
      assert ours.keys() == theirs.keys()
      ours, theirs = ours["labels"], theirs["labels"]
    np.testing.assert_array_equal(ours, theirs)
    assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None)
  assert len(list((tmp_path / "c").iterdir())) == 1


def test_what_was_warned_of_is_said_again(source, tmp_path, caplog):
  def make():
    logging.info("read")
    logging.warning("%d samples are left out, %s", 3, "50%")
    return features()

  for make_now in (make, never):
    caplog.clear()
    cached(tmp_path / "c", [source], [1], make_now)
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert said.endswith("3 samples are left out, 50%")
    assert said.startswith("When ") == (make_now is never)


def test_other_content_or_settings_are_made_anew(source, tmp_path):
  cached(tmp_path, [source], ["a"], lambda: features(3))
  assert cached(tmp_path, [source], ["b"], lambda: features(4)).symbols[0, 0] == 4
  source.write_text("abcdeg")
  assert cached(tmp_path, [source], ["a"], lambda: features(5)).symbols[0, 0] == 5


def test_a_spoilt_file_is_said_and_made_anew(source, tmp_path, caplog):
  cached(tmp_path / "c", [source], [], features)
  (path,) = (tmp_path / "c").iterdir()
  path.write_bytes(path.read_bytes()[:100])
  assert cached(tmp_path / "c", [source], [], lambda: features(7)).symbols[0, 0] == 7
  assert f"The features in {path} cannot be read" in caplog.text
  assert cached(tmp_path / "c", [source], [], never).symbols[0, 0] == 7


def test_small_and_generated_data_are_not_kept(source, tmp_path, monkeypatch):
  monkeypatch.setattr(cache, "_WORTH", 7)
  cached(tmp_path / "c", [source], [], features)
  cached(tmp_path / "c", [], [], features)
  cached(tmp_path / "c", [tmp_path / "missing"], [], features)
  assert not (tmp_path / "c").exists()


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(source, tmp_path, caplog):
  (tmp_path / "c").write_text("a file")
  assert cached(tmp_path / "c", [source], [], features).symbols[0, 0] == 3
  assert str(tmp_path / "c") in caplog.text


def test_a_share_of_the_training_part_is_encoded_with_the_rest(tmp_path, monkeypatch):
  monkeypatch.setattr(cache, "_WORTH", 3)
  write_data(tmp_path)
  config = tiny.get_config()
  config.task.name = "dna_splice"
  config.data_dir, config.cache_dir = str(tmp_path), str(tmp_path / "c")
  whole = make_plan(config)
  config.task.train_fraction, config.train.batch_size = 0.5, 8
  part = make_plan(config)
  assert len(part.splits[0]["train"]) < len(whole.splits[0]["train"])
  assert len(list((tmp_path / "c" / "features").iterdir())) == 1
