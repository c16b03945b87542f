"""Gives tests a small checkpoint that they may change."""

import shutil

import pytest
from safetensors.numpy import load_file


@pytest.fixture
def checkpoint(testdata, tmp_path):
  """Returns a copy of the small checkpoint, which a test may change, and its tensors."""
  directory = tmp_path / "checkpoint"
  shutil.copytree(testdata / "bert_small", directory)
  return directory, load_file(directory / "model.safetensors")
