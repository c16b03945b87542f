"""Tests runs whose input files are edited, moved or gone before the same command is given again."""

import contextlib
import json
import pathlib
import re
import shutil
from collections.abc import Iterator

import jax
import numpy as np
import pytest

from discipline_jax import models
from discipline_jax.main import main
from discipline_jax.models.config import read_config
from discipline_jax.models.key_stream import key_stream
from tests.testdata.small_files import write_data, write_model
from tests.whole_runs import one_device

PRETRAIN = pathlib.Path(__file__).parent / "testdata" / "tiny_pretrain.py"


@contextlib.contextmanager
def edited(path: pathlib.Path) -> Iterator[None]:
  """Changes one byte of a file for the time of the block."""
  content = path.read_bytes()
  place = content.rindex(b"1" if path.suffix != ".safetensors" else content[-1:])
  path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
  try:
    yield
  finally:
    path.write_bytes(content)


def call(arguments, workdir, *more) -> int:
  with one_device():
    return main(["main", *arguments, f"--workdir={workdir}", *more])


def write_checkpoint(folder: pathlib.Path) -> None:
  """Writes a model with weights."""
  write_model(folder)
  network = models.Encoder(read_config(folder), rngs=key_stream(jax.random.key(0)))
  models.save(network, folder / "saved")
  (folder / "saved" / "model.safetensors").rename(folder / "model.safetensors")
  shutil.rmtree(folder / "saved")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
  """Returns the folder of a fine-tuned pre-trained model, with its inputs, and the arguments of its command."""
  folder = tmp_path_factory.mktemp("text")
  write_data(folder / "data")
  write_checkpoint(folder / "model")
  arguments = [
    *("--config=glue_cola", f"--config.model.checkpoint={folder / 'model'}"),
    *("--config.replicas=1", "--config.train.steps=2", "--config.train.batch_size=8"),
  ]
  assert call(arguments, folder / "run", f"--config.data_dir={folder / 'data'}") == 0
  return folder, arguments


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
  """Returns the folder of a model that was trained further on texts, with its inputs and its arguments."""
  folder = tmp_path_factory.mktemp("corpus")
  (folder / "texts").mkdir()
  words = np.random.default_rng(0).choice(["cat", "dog", "man", "sat", "ran", "1"], (60, 40))
  (folder / "texts" / "a.txt").write_text("\n\n".join(" ".join(line) + "." for line in words))
  write_model(folder / "vocabulary")
  write_checkpoint(folder / "model")
  arguments = [
    *(f"--config={PRETRAIN}:checkpoint", "--config.train.steps=2", "--config.corpus.name=text"),
    *(f"--config.corpus.path={folder / 'texts'}", "--config.model.init=pretrained"),
    f"--config.model.checkpoint={folder / 'model'}",
    f"--config.corpus.vocabulary={folder / 'vocabulary'}",
  ]
  assert call(arguments, folder / "run") == 0
  return folder, arguments


def opened(folder: pathlib.Path, state: str, tmp_path: pathlib.Path) -> pathlib.Path:
  """Returns a copy of the run: finished, or stopped between its last update and its result."""
  shutil.copytree(folder / "run", tmp_path / "run")
  if state == "stopped":
    (tmp_path / "run" / "result.json").unlink()
  return tmp_path / "run"


def last_line(capsys) -> str:
  return capsys.readouterr().err.splitlines()[-1]


def check_refused(path, field, arguments, workdir, capsys, *more) -> None:
  """Edits a file of a run, whose start must then end with an error that names the field and the file."""
  with edited(path):
    assert call(arguments, workdir, *more) == 2
  message = rf"error: the file has another content .*\({field}\), {path}; restore it, "
  assert re.match(message, last_line(capsys))


@pytest.mark.parametrize("state", ["finished", "stopped"])
class TestFineTuning:
  @pytest.mark.parametrize(
    ("field", "name"),
    [
      ("data_dir", "data/glue_data/CoLA/train.tsv"),
      ("model.checkpoint", "model/model.safetensors"),
      ("model.checkpoint", "model/tokenizer.json"),
    ],
  )
  def test_an_edited_file_is_an_error(self, field, name, state, text, tmp_path, capsys):
    folder, arguments = text
    workdir = opened(folder, state, tmp_path)
    data = f"--config.data_dir={folder / 'data'}"
    check_refused(folder / name, field, arguments, workdir, capsys, data)
    assert (workdir / "result.json").exists() == (state == "finished")

  def test_moved_data_are_the_same(self, state, text, tmp_path, caplog):
    folder, arguments = text
    shutil.copytree(folder / "data", tmp_path / "moved")
    workdir = opened(folder, state, tmp_path)
    before = json.loads((folder / "run" / "result.json").read_text())
    assert call(arguments, workdir, f"--config.data_dir={tmp_path / 'moved'}") == 0
    assert "began" not in caplog.text
    after = json.loads((workdir / "result.json").read_text())
    for name in ("identity", "validation", "test", "inputs"):
      assert after[name] == before[name]
    assert after["inputs"].keys() == {"data_dir", "model.checkpoint"}

  def test_data_that_are_gone(self, state, text, tmp_path, capsys, caplog):
    folder, arguments = text
    workdir = opened(folder, state, tmp_path)
    code = call(arguments, workdir, f"--config.data_dir={tmp_path}")
    if state == "finished":
      assert code == 0
      assert "data_dir: glue_data/CoLA/" in caplog.text
      assert "accuracy" not in capsys.readouterr().err
    else:
      assert code == 2
      assert f"{tmp_path}/glue_data/CoLA/train.tsv" in last_line(capsys)

  def test_a_checkpoint_that_is_gone(self, state, text, tmp_path, capsys, caplog):
    folder, arguments = text
    workdir = opened(folder, state, tmp_path)
    (folder / "model").rename(folder / "gone")
    code = call(arguments, workdir, f"--config.data_dir={folder / 'data'}")
    (folder / "gone").rename(folder / "model")
    if state == "finished":
      assert code == 0
      assert "model.checkpoint: config.json is gone or cannot be read, and 2 more;" in caplog.text
    else:
      assert code == 2
      assert f"error: no checkpoint directory {folder / 'model'}" in last_line(capsys)

  def test_a_run_of_an_older_version(self, state, text, tmp_path, caplog):
    folder, arguments = text
    workdir = opened(folder, state, tmp_path)
    (workdir / "inputs.json").unlink()
    with edited(folder / "data" / "glue_data" / "CoLA" / "train.tsv"):
      assert call(arguments, workdir, f"--config.data_dir={folder / 'data'}") == 0
    assert caplog.text.count(f"{workdir} has no inputs.json, so its input files were not") == 1
    if state == "stopped":
      assert json.loads((workdir / "result.json").read_text())["inputs"] is None


class TestUsingTheModel:
  @pytest.fixture(params=["predict", "export"])
  def use(self, request, text, tmp_path):
    """Uses the model of the run in a workdir."""
    (tmp_path / "new.csv").write_text("sequence\nthe cat\n")
    arguments = [
      *("--config=glue_cola", f"--config.mode={request.param}", f"--workdir={text[0] / 'run'}"),
      *(f"--config.task.path={tmp_path / 'new.csv'}", f"--config.export.output={tmp_path / 'x'}"),
      *(f"--config.predict.output={tmp_path / 'new.out.csv'}", "--dry-run"),
    ]
    return lambda: main(["main", *arguments])

  @pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
  def test_an_edited_checkpoint_is_an_error(self, name, use, text, capsys):
    path = text[0] / "model" / name
    with edited(path):
      assert use() == 2
    assert f"(model.checkpoint), {path}; restore it, or train again" in last_line(capsys)

  def test_data_do_not_matter(self, use, text):
    with edited(text[0] / "data" / "glue_data" / "CoLA" / "train.tsv"):
      assert use() == 0

  def test_an_older_run_is_said(self, use, text, caplog):
    path = text[0] / "run" / "inputs.json"
    path.rename(path.with_suffix(".old"))
    try:
      assert use() == 0
    finally:
      path.with_suffix(".old").rename(path)
    assert "has no inputs.json" in caplog.text


@pytest.mark.parametrize("state", ["finished", "stopped"])
class TestPreTraining:
  @pytest.mark.parametrize(
    ("field", "name"),
    [
      ("corpus.path", "texts/a.txt"),
      ("corpus.vocabulary", "vocabulary/tokenizer.json"),
      ("model.checkpoint", "model/model.safetensors"),
    ],
  )
  def test_an_edited_file_is_an_error(self, field, name, state, corpus, tmp_path, capsys):
    folder, arguments = corpus
    workdir = opened(folder, state, tmp_path)
    check_refused(folder / name, field, arguments, workdir, capsys)

  def test_a_further_text_is_an_error_until_it_is_removed(self, state, corpus, tmp_path, capsys):
    folder, arguments = corpus
    workdir = opened(folder, state, tmp_path)
    new = folder / "texts" / "b.txt"
    new.write_text("cat sat\n")
    assert call(arguments, workdir) == 2
    new.unlink()
    assert f"(corpus.path), {new}; remove it" in last_line(capsys)
    assert call(arguments, workdir) == 0
    result = json.loads((workdir / "result.json").read_text())
    assert result["inputs"].keys() == {"corpus.path", "corpus.vocabulary", "model.checkpoint"}

  def test_a_corpus_that_is_gone(self, state, corpus, tmp_path, capsys, caplog):
    folder, arguments = corpus
    workdir = opened(folder, state, tmp_path)
    (folder / "texts").rename(folder / "gone")
    code = call(arguments, workdir)
    (folder / "gone").rename(folder / "texts")
    if state == "finished":
      assert code == 0
      assert "corpus.path: a.txt is gone or cannot be read; not compared with" in caplog.text
    else:
      assert code == 2
      assert f"no such file or folder, {folder / 'texts'}" in last_line(capsys)
