"""Tests what a task without samples keeps of itself."""

import dataclasses

import pytest

from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet
from discipline_jax.tasks.glue import glue
from tests.tasks.own_tables import read, written


@pytest.mark.parametrize(
  "changes",
  [{}, {"pairs": True}, {"windows": True, "stride": 7}, {"add_special_tokens": False}],
)
def test_a_task_is_the_same_after_json(changes):
  task = Task("custom", Alphabet(("A", "C")), Class(("x", "y")), 20, read=dict)
  task = dataclasses.replace(task, **changes)
  assert Task.from_json(task.to_json()) == task


def test_a_pair_is_one_for_symbols_and_texts(tmp_path):
  path = written(tmp_path, "a,b,label\nAC,CC,x\nCC,AC,y\n")
  assert read(path, sequence_column="a,b").pairs
  assert not read(path, sequence_column="a").pairs
  assert glue("mrpc", tmp_path).pairs
  assert not glue("cola", tmp_path).pairs


def test_a_file_before_pairs_were_kept():
  fields = Task("custom", None, Class(("x", "y")), 20, read=dict).to_json()
  del fields["pairs"]
  assert not Task.from_json(fields).pairs
