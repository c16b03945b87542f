"""Trees of runs: what is found, what it is named, what is missing, and what is left out."""

import json
import re

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.report import paper
from discipline_jax.report.collect import COLUMNS, collect, collect_tree
from discipline_jax.report.tree import read
from tests.report import run_folders

V2 = {"version": "v2", "table": "5", "setting": "random_mapping", "part": "test"}


@pytest.fixture
def splice(tmp_path):
  """Returns a study of two finished cells, one that failed, one that was stopped, and one that is missing."""
  run_folders.finetuned(tmp_path / "b", right=(0.9, 0.8, 0.7))
  run_folders.finetuned(tmp_path / "a", right=(0.6, 0.6, 0.6), init="scratch")
  labels = {name: {**V2, "model": "bert"} for name in ("b", "failed", "begun", "missing")}
  labels["a"] = {**V2, "model": "scratch"}
  run_folders.study(tmp_path, labels, failed="no memory")
  (tmp_path / "begun").mkdir()
  (tmp_path / "begun" / "config.json").write_text('{"mode": "finetune"}')
  return tmp_path


def test_scores_and_the_papers_numbers(splice):
  table = collect(splice)
  assert tuple(table.columns) == COLUMNS
  assert list(zip(table["run"], table["part"], strict=True)) == [
    *[("b", "validation"), ("b", "test"), ("a", "validation"), ("a", "test")]
  ]
  bert, scratch = (
    table[(table["run"] == name) & (table["part"] == "test")].iloc[0] for name in "ba"
  )
  assert (bert["mean"], bert["std"]) == (pytest.approx(80), pytest.approx(10))
  assert bert["runs"] == pytest.approx([90, 80, 70])
  assert bert["seeds"] == [0, 1, 2]
  assert (bert["task"], bert["discipline"], bert["variant"]) == ("splice", "DNA", "bert")
  assert (bert["low"], bert["high"]) == (pytest.approx(75), pytest.approx(85))
  assert (bert["paper_mean"], bert["paper_source"]) == (96.4, "v2, table 5")
  assert bert["difference"] == pytest.approx(80 - 96.4)
  assert scratch["paper_mean"] == 95.3
  assert (scratch["result"], scratch["config"]) == ("../a/result.json", "../a/config.json")


def test_what_has_no_result(splice):
  found = {one.name: (one.state, one.reason) for one in read(splice).unfinished}
  assert found == {
    "failed": ("failed", "no memory"),
    "begun": ("begun", ""),
    "missing": ("missing", ""),
  }


def test_labels_without_a_study(tmp_path):
  run_folders.finetuned(tmp_path / "deep" / "bert")
  run_folders.finetuned(
    tmp_path / "roberta", model="FacebookAI/roberta-base", network="roberta 12 x 768"
  )
  run_folders.finetuned(tmp_path / "re_emb", init="re_emb")
  run_folders.finetuned(tmp_path / "small", init="scratch", network="bert 2 x 64")
  run_folders.finetuned(tmp_path / "glue", task="glue_rte", token_map="identity")
  run_folders.pretrained(tmp_path / "before", steps=40)
  run_folders.finetuned(tmp_path / "last", model="/gone/before", network="bert 2 x 64")
  run_folders.finetuned(tmp_path / "first", model="/gone/before@0", network="bert 2 x 64")
  table = collect(tmp_path)
  test = table[table["part"] == "test"].set_index("run")
  assert test["variant"].to_dict() == {
    "deep/bert": "bert",
    "roberta": "roberta",
    "re_emb": "re_emb",
    "glue": "bert",
    "small": "scratch bert 2 x 64",
    "last": "before, step 40",
    "first": "before, step 0",
  }
  numbers = {"deep/bert": 96.4, "glue": 62.1}
  assert {name: test["paper_mean"][name] for name in numbers} == numbers
  assert np.isnan(test["paper_mean"]["small"])
  before = table[table["run"] == "before"].iloc[0]
  assert (before["mode"], before["metric"], before["mean"], before["corpus"]) == (
    "pretrain",
    "loss",
    3.7,
    "nesting",
  )
  assert test["result"]["deep/bert"] == "../deep/bert/result.json"


def test_what_varies_is_in_the_name(tmp_path):
  for name, token_map in (("one", "random"), ("two", "unused"), ("three", "unused")):
    run_folders.finetuned(tmp_path / name, token_map=token_map)
  table = collect(tmp_path)
  assert table[table["part"] == "test"].set_index("run")["variant"].to_dict() == {
    "one": "bert, random_mapping",
    "two": "bert, unused (two)",
    "three": "bert, unused (three)",
  }


def test_labels_that_the_paper_does_not_have_are_said_once(tmp_path):
  for name in ("one", "two"):
    run_folders.finetuned(tmp_path / name)
  run_folders.study(
    tmp_path, {name: {**V2, "model": "minilm", "corpus": name} for name in ("one", "two")}
  )
  collected = collect_tree(read(tmp_path))
  assert collected.rows["paper_mean"].isna().all()
  assert len([note for note in collected.notes if "model minilm" in note]) == 1
  assert not any("setting" in note for note in collected.notes)


def test_a_task_that_is_not_the_papers_is_not_held_against_it(tmp_path):
  run_folders.finetuned(tmp_path / "own", task="custom", model="minilm")
  assert collect_tree(read(tmp_path)).notes == ()


def test_runs_that_are_not_alike_are_named(tmp_path):
  run_folders.finetuned(tmp_path / "cpu")
  run_folders.finetuned(tmp_path / "other")
  versions = {**run_folders.VERSIONS, "jax": "0.11.0"}
  run_folders.finetuned(tmp_path / "odd", device="1 x H200", versions=versions, collapsed=True)
  notes = collect_tree(read(tmp_path)).notes
  for what in ("1 x H200", "jax", "collapsed"):
    (note,) = [note for note in notes if what in note and "paper" not in note]
    assert re.search(r"\bodd\b", note)


def hostile(**fields):
  def change(result):
    for place, value in fields.items():
      *outer, last = place.split("__")
      target = result
      for one in outer:
        target = target[one]
      target[last] = value
    return json.dumps(result)

  return change


BROKEN = {
  "cut": lambda result: json.dumps(result)[:-9],
  "list": lambda _: "[]",
  "deep": lambda _: "[" * 100_000,
  "empty": lambda _: "",
  "foreign": lambda _: '{"accuracy": 1}',
  "no_number": hostile(test__mean="high"),
  "nan": hostile(test__mean=float("nan")),
  "runs": hostile(test__runs=[1.0]),
  "no_runs": hostile(validation__runs=[]),
  "text_runs": hostile(test__runs=["a", "b", "c"]),
  "part": hostile(test=3),
  "task": hostile(task=None),
  "mode": hostile(mode=["finetune"]),
  "versions": hostile(versions="1.0"),
  "intervals": hostile(test__intervals=[[1.0]]),
  "samples": hostile(test__samples="many"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_result_that_cannot_be_read_is_named_and_left_out(name, tmp_path):
  run_folders.finetuned(tmp_path / "good")
  result = run_folders.finetuned(tmp_path / "bad")
  (tmp_path / "bad" / "result.json").write_text(BROKEN[name](result))
  collected = collect_tree(read(tmp_path))
  assert set(collected.rows["run"]) == {"good"}
  assert [note for note in collected.notes if str(tmp_path / "bad" / "result.json") in note]


def test_files_that_are_not_text(tmp_path):
  run_folders.finetuned(tmp_path / "good")
  run_folders.finetuned(tmp_path / "bad")
  for name in ("bad/result.json", "good/config.json", "study.json", "failed.json"):
    (tmp_path / name).write_bytes(b"\xff\xfe\0")
  collected = collect_tree(read(tmp_path))
  assert set(collected.rows["run"]) == {"good"}
  assert collected.rows["seeds"].isna().all()
  for name in ("bad/result.json", "good/config.json", "study.json", "failed.json"):
    assert any(str(tmp_path / name) in note for note in collected.notes), name


@pytest.mark.parametrize(
  "cells",
  [
    [],
    {"a": 1},
    {"a": {}},
    {"a": {"mode": "finetune", "labels": 3}},
    {"a": {"mode": "finetune", "labels": {"step": "last"}}},
    {"a": {"mode": "finetune", "labels": {"model": ["bert"]}}},
  ],
)
def test_a_study_without_cells_is_named(cells, tmp_path):
  run_folders.finetuned(tmp_path / "a")
  (tmp_path / "study.json").write_text(json.dumps({"cells": cells}))
  collected = collect_tree(read(tmp_path))
  assert set(collected.rows["run"]) == {"a"}
  assert any(str(tmp_path / "study.json") in note for note in collected.notes)


@pytest.mark.parametrize("content", [None, "{", '{"mode": "study"}'])
def test_no_finished_run(content, tmp_path):
  if content is not None:
    (tmp_path / "result.json").write_text(content)
  with pytest.raises(UserError, match=re.escape(str(tmp_path))):
    read(tmp_path)
  with pytest.raises(UserError, match="nowhere"):
    read(tmp_path / "nowhere")


def test_a_single_run_is_a_tree(tmp_path):
  run_folders.finetuned(tmp_path / "run")
  table = collect(tmp_path / "run")
  assert set(table["run"]) == {"."}
  assert table["result"].iloc[0] == "../result.json"


def test_every_number_of_the_paper_can_be_found():
  assert len(paper._numbers()) == len(paper._rows()) > 500
  labels = {"model": "bert", "setting": "normal"}
  assert paper.find_number(labels, "CoLA", "mcc", "validation").mean == 55.0
  assert paper.find_number({**labels, "version": "bert"}, "CoLA", "mcc", "test").mean == 52.1
  assert paper.find_number(labels, "CoLA", "accuracy", "validation") is None
  first = {"version": "v1", "model": "scratch"}
  assert (
    paper.find_number({**first, "setting": "frequent_tokens"}, "splice", "accuracy", "test").mean
    == 95.0
  )
  assert (
    paper.find_number({**first, "setting": "shift_1000"}, "RTE", "accuracy", "validation")
    is not None
  )
